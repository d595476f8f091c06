create view traj.rewards as
  select r.episode_id, nullif(r.step_id, '') as step_id, m.method, m.version, m.params, r.value, r.reason, r.method_key, r.detail
  from facts.rewards r join facts.judged_methods m using (method_key);

comment on view traj.rewards is 'Computed rewards, a number for each candidate; recorded ones are in traj.feedback.';
