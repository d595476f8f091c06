create view traj.verdicts as
  select v.episode_id, nullif(v.step_id, '') as step_id, m.method, m.version, m.params, v.keep, v.reason, v.detail, v.method_key
  from facts.verdicts v join facts.judged_methods m using (method_key);

comment on view traj.verdicts is 'A filter''s decision to keep or drop, with its reason. step_id is null for verdicts on whole episodes.';
