create view traj.blames as
  select b.episode_id, m.method, m.version, m.params, b.agent_id, b.step_id, b.entry, b.value, b.reason, b.method_key, b.rank, b.detail
  from facts.blames b join facts.judged_methods m using (method_key);

comment on view traj.blames is 'An attribution of failure: agent, step, confidence.';
comment on column traj.blames.entry is 'number of the entry in the record, from 0, if the source counts entries instead of steps';
comment on column traj.blames.rank is '0 is the first and most certain; a method that gives every agent a share has a row for each';
