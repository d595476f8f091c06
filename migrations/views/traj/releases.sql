create view traj.releases as
  select r.release_id, p.key as policy, p.value as checkpoint_id, r.reason, r.author as "by", r.metrics, r.released_at,
         null::text as team, null::text as team_id
  from facts.releases r cross join lateral json_each_text(r.policies) p
  union all
  select r.release_id, null, null, r.reason, r.author, r.metrics, r.released_at, t.key, t.value
  from facts.releases r cross join lateral json_each_text(r.teams) t;

comment on view traj.releases is 'Which checkpoint each policy and which version each team was given, and when: one row for each, so either policy and checkpoint_id or team and team_id are null. A release is an atomic map; rolling back restores the whole map.';
comment on column traj.releases.checkpoint_id is 'upstream:MODEL if the policy was given its route''s fallback model, as before its first release';
