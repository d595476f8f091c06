create view traj.credits as
  select c.episode_id, c.step_id, m.method, m.version, m.params, c.value, c.reason, c.method_key, c.detail
  from facts.credits c join facts.judged_methods m using (method_key);

comment on view traj.credits is 'A number for each step (an advantage), by method and parameters. reason says why there is no signal (group_of_one, zero_variance, missing_reward) or why the number needs care: partial_group, fewer members of the group are closed than announced; mixed_policies, one agent was sampled from several weights. Otherwise it is null.';
