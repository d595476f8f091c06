--! credits: what was computed beside the number
-- An advantage for each token does not fit into one number: it stands beside the step's, as verdicts and scores have theirs.
alter table facts.credits add column detail json;

create or replace view traj.credits as
  select c.episode_id, c.step_id, m.method, m.version, m.params, c.value, c.reason, c.method_key, c.detail
  from facts.credits c join facts.judged_methods m using (method_key);
