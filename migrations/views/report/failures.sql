-- No `with` here: PostgreSQL computes a view with one whole before joining it.
create view report.failures as
  select s.episode_id, o.task_id, o.team_id, o.team, s.feedback_id, s.key, s.kind, s.name, s.label, s.taxonomy, s.taxonomy_version,
         coalesce(m.code, s.label, s.name) as mode, m.title, m.category_code, m.category, s."by", s.annotator, s.target_kind,
         a.agent_id, coalesce(a.name, a.agent_id, s.agent_id) as agent, coalesce(c.completed_role, c.requested_role, a.role, a.name, a.agent_id collate "default") as role,
         s.step_id, s.call_id, s.entry, o.solved, s.at
  from (
    select coalesce(f.episode_id, f.resolved_episode_id) as episode_id, f.key, f.feedback_id, f.kind, f.name, f.label, f.author as "by", f.annotator, f.target_kind, f.entry, f.occurred_at as at,
           case when json_typeof(f.taxonomy) = 'object' then f.taxonomy ->> 'name' end as taxonomy,
           case when json_typeof(f.taxonomy) = 'object' then f.taxonomy ->> 'version' end as taxonomy_version,
           coalesce(substring(f.name from '^(?:FM-)?([123]\.[1-6])$'), substring(f.label from '^(?:FM-)?([123]\.[1-6])$')) as code,
           case f.target_kind when 'agent' then f.target_id end as agent_id,
           case f.target_kind when 'step' then traj.call_of(f.target_id) when 'call' then f.target_id else f.resolved_call_id end as call_id,
           case f.target_kind when 'step' then f.target_id end as step_id
    from facts.feedback f
    where (f.kind = 'failure' or f.kind = 'label' and f.taxonomy is not null) and f.value is distinct from 0
  ) s
  left join (values
    ('1.1', 'Disobey task specification', 'FC1', 'System design issues'),
    ('1.2', 'Disobey role specification', 'FC1', 'System design issues'),
    ('1.3', 'Step repetition', 'FC1', 'System design issues'),
    ('1.4', 'Loss of conversation history', 'FC1', 'System design issues'),
    ('1.5', 'Unaware of termination conditions', 'FC1', 'System design issues'),
    ('2.1', 'Conversation reset', 'FC2', 'Inter-agent misalignment'),
    ('2.2', 'Fail to ask for clarification', 'FC2', 'Inter-agent misalignment'),
    ('2.3', 'Task derailment', 'FC2', 'Inter-agent misalignment'),
    ('2.4', 'Information withholding', 'FC2', 'Inter-agent misalignment'),
    ('2.5', 'Ignored other agent''s input', 'FC2', 'Inter-agent misalignment'),
    ('2.6', 'Reasoning-action mismatch', 'FC2', 'Inter-agent misalignment'),
    ('3.1', 'Premature termination', 'FC3', 'Task verification'),
    ('3.2', 'No or incomplete verification', 'FC3', 'Task verification'),
    ('3.3', 'Incorrect verification', 'FC3', 'Task verification')
  ) as m (code, title, category_code, category) on m.code = s.code and (s.taxonomy is null or s.taxonomy ~* 'mast')
  left join report.outcomes o on o.episode_id = s.episode_id
  left join facts.calls c on c.episode_id = s.episode_id and c.call_id = s.call_id
  left join facts.agents a on a.episode_id = s.episode_id and a.agent_id = coalesce(s.agent_id, c.completed_agent_id, c.requested_agent_id);

comment on view report.failures is 'Every recorded failure with its mode: feedback of kind failure, and labels that name a taxonomy. The value 0 or false means that the mode is absent and is left out. Two annotators of one failure give two rows. No row means that no failure was recorded, not that there was none.';
comment on column report.failures.mode is 'the code of the MAST taxonomy (arXiv 2503.13657) if the name or label is one, otherwise the label, otherwise the name';
comment on column report.failures.title is 'title of that code in the released taxonomy, where 3.2 includes no verification; an older taxonomy_version may define 3.2 and 3.3 differently';
