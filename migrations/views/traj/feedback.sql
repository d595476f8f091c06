create view traj.feedback as
  select coalesce(f.episode_id, f.resolved_episode_id) as episode_id, f.feedback_id, f.key, f.target_kind, f.target_id, f.other_id, f.entry,
         f.kind, f.name, f.value, f.value_json, f.label, f.taxonomy, f.author as "by", f.annotator, f.explanation, f.confidence, f.flags, f.occurred_at as at,
         f.matrix is not null as has_matrix,
         f.target_kind = 'foreign' and f.resolved_episode_id is null as pending,
         f.target_kind = 'step' and f.episode_id is not null
           and not exists (
             select from facts.steps s
             where s.episode_id = f.episode_id and s.call_id = substring(f.target_id from '^(.*)/\d{1,9}$')
               and s.candidate = substring(f.target_id from '/(\d{1,9})$')::integer)
           and (
             exists (
               select from facts.calls c
               where c.episode_id = f.episode_id and c.call_id = substring(f.target_id from '^(.*)/\d{1,9}$') and c.completed_version is not null)
             or exists (select from facts.episodes e where e.episode_id = f.episode_id and e.closed)
           ) as no_such_step
  from facts.feedback f;

comment on view traj.feedback is 'Feedback on a target, recorded afterwards. pending: the target has a foreign id that has not been seen yet.';
comment on column traj.feedback.no_such_step is 'true: its call is complete without this candidate, or its episode closed without this step; changes when the call arrives';
