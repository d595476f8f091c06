create view report.team_vs_single as
  with tried as (
    select o.task_id, o.team_id, o.split, o.policy, o.checkpoint_id, o.weights, coalesce(e.spoke_weights, '{}') as spoke, o.members, o.solved, o.tokens, o.calls
    from report.outcomes o join facts.episodes e using (episode_id) where o.task_id is not null
  ),
  singles as (
    select task_id, spoke, max(split) as split, max(weights) as weights, count(*) as episodes, count(solved) as known, count(*) filter (where solved) as solved,
           avg(tokens) filter (where solved is not null) as tokens, avg(calls) filter (where solved is not null) as calls
    from tried where members = 1 group by task_id, spoke
  ),
  teams as (
    select task_id, spoke, team_id, split, policy, checkpoint_id, weights, count(*) as episodes, count(solved) as known, count(*) filter (where solved) as solved,
           avg(tokens) filter (where solved is not null) as tokens, avg(calls) filter (where solved is not null) as calls
    from tried where members > 1 group by task_id, spoke, team_id, split, policy, checkpoint_id, weights
  ),
  unnamed as (
    select task_id, count(*) as episodes from tried where members is null group by task_id
  ),
  met as (
    select t.task_id, t.split, t.team_id, t.policy, t.checkpoint_id, t.weights, t.episodes as team_episodes, t.known as team_known, t.solved as team_solved,
           t.calls as team_calls, t.tokens as team_tokens, s.weights as single_weights, coalesce(s.episodes, 0) as single_episodes,
           coalesce(s.known, 0) as single_known, coalesce(s.solved, 0) as single_solved, s.calls as single_calls, s.tokens as single_tokens
    from teams t left join singles s on s.task_id = t.task_id and (s.spoke = t.spoke or s.spoke <> '{}' and s.spoke <@ t.spoke)
    union all
    select s.task_id, s.split, null, null, null, null, 0, 0, 0, null, null, s.weights, s.episodes, s.known, s.solved, s.calls, s.tokens
    from singles s
    where not exists (select from teams t where t.task_id = s.task_id and (s.spoke = t.spoke or s.spoke <> '{}' and s.spoke <@ t.spoke))
    union all
    select task_id, max(split), null, null, null, null, 0, 0, 0, null, null, null, 0, 0, 0, null, null from tried group by task_id having count(members) = 0
  )
  select m.task_id, m.single_episodes, m.single_known, m.single_solved, m.single_solved::double precision / nullif(m.single_known, 0) as single_rate,
         m.team_episodes, m.team_known, m.team_solved, m.team_solved::double precision / nullif(m.team_known, 0) as team_rate,
         m.team_solved::double precision / nullif(m.team_known, 0) - m.single_solved::double precision / nullif(m.single_known, 0) as difference,
         m.single_calls::double precision as single_calls, m.team_calls::double precision as team_calls,
         m.single_tokens::double precision as single_tokens, m.team_tokens::double precision as team_tokens, coalesce(u.episodes, 0) as unknown_size,
         m.team_id, m.split, m.policy, m.checkpoint_id, m.weights, m.single_weights
  from met m left join unnamed u using (task_id);

comment on view report.team_vs_single is 'Per task, episodes of one team with several members against single-agent episodes, if the single agent''s weights were also used in the team. One row per task, team and its weights, and single agent''s weights; without a match the other side is null. Average the difference over tasks that have both, for one team_id and one pair of weights at a time. If the team makes many more calls, compare it with as many attempts of the single agent (report.pass_at_k). Pools: all single agents with those weights, whatever their team_id.';
comment on column report.team_vs_single.difference is 'solve rate of the team minus that of single agents; null unless both are known for the task';
comment on column report.team_vs_single.single_calls is 'mean calls per episode';
comment on column report.team_vs_single.unknown_size is 'episodes of the task without a named member';
comment on column report.team_vs_single.weights is 'of the team; null if no team with the single agent''s weights tried the task';
comment on column report.team_vs_single.single_weights is 'of the single agents; equal to weights or part of them';
