--! execution matrices and corrections that are read fast
-- The same answers as before. A matrix was parsed again for each of its cells; now once, and each row of it once. Corrections were made for
-- every episode before one was chosen; now the choice reaches the tables.
create or replace view traj.executions as
  select coalesce(f.episode_id, f.resolved_episode_id) as episode_id, f.feedback_id, f.name,
         (p.place - 1)::integer as program, p.step_id as program_step_id, p.name as program_name, p.valid as program_valid, coalesce(p.reference, false) as reference,
         (t.place - 1)::integer as test, t.step_id as test_step_id, t.name as test_name, t.valid as test_valid,
         coalesce(t.ground_truth, false) as ground_truth, coalesce(t.public, false) as public,
         case t.cell when '1' then true when '0' then false end as pass
  from facts.feedback f
  cross join lateral (
    select array_agg(step_id order by place) as step_ids, array_agg(name order by place) as names, array_agg(valid order by place) as valids,
           array_agg(ground_truth order by place) as truths, array_agg(public order by place) as publics
    from rows from (json_to_recordset(f.matrix -> 'tests') as (step_id text, name text, valid boolean, ground_truth boolean, public boolean))
         with ordinality as t (step_id, name, valid, ground_truth, public, place)
  ) m
  cross join lateral rows from (
    json_to_recordset(f.matrix -> 'programs') as (step_id text, name text, valid boolean, reference boolean),
    json_array_elements(f.matrix -> 'pass')
  ) with ordinality as p (step_id, name, valid, reference, cells, place)
  cross join lateral unnest(
    m.step_ids, m.names, m.valids, m.truths, m.publics,
    array(select json_array_elements_text(p.cells))
  ) with ordinality as t (step_id, name, valid, ground_truth, public, cell, place)
  where f.kind = 'execution' and f.matrix is not null;

create or replace view traj.corrections as
  with feedback as (
    select distinct on (coalesce(f.episode_id, f.resolved_episode_id), f.name, f.target_id) coalesce(f.episode_id, f.resolved_episode_id) as episode_id, f.name, f.target_id as step_id,
           case when f.kind = 'reward' and f.value >= 1 then true
                when f.kind = 'reward' and f.value <= 0 then false
                when f.kind <> 'reward' and json_typeof(f.value_json) = 'boolean' then f.value = 1
                when lower(f.label) in ('correct', 'right') then true
                when lower(f.label) in ('incorrect', 'wrong') then false end as is_right
    from facts.feedback f
    where f.target_kind = 'step' and f.kind in ('reward', 'score', 'label')
    order by coalesce(f.episode_id, f.resolved_episode_id), f.name, f.target_id, f.version desc
  ),
  said as not materialized (
    select episode_id, 'feedback' as basis, name, step_id, is_right from feedback
    union all
    select v.episode_id, 'verdict', v.method_key, v.step_id, v.keep
    from facts.verdicts v join facts.judged_methods m using (method_key)
    where v.step_id <> '' and m.method in ('correctness_filter', 'public_tests_filter')
    union all
    select episode_id, 'execution', name, program_step_id, case when not bool_and(coalesce(program_valid, true) and coalesce(pass, true)) then false when bool_and(pass is not null) then true end
    from traj.executions where ground_truth and program_step_id is not null
    group by episode_id, name, program_step_id
  ),
  judged as (
    select s.episode_id, s.basis, s.name, p.call_id,
           case when count(*) = 1 then min(s.step_id) else min(s.step_id) filter (where p.chosen) end as step_id,
           case when count(*) = 1 then bool_or(s.is_right) else bool_or(s.is_right) filter (where p.chosen) end as is_right,
           case when count(*) = 1 then min(p.parent_step_id) else min(p.parent_step_id) filter (where p.chosen) end as parent_step_id
    from said s
    join facts.steps p on p.episode_id = s.episode_id and p.call_id || '/' || p.candidate = s.step_id
    group by s.episode_id, s.basis, s.name, p.call_id
  ),
  spoken as (
    select episode_id, call_id, coalesce(completed_agent_id, requested_agent_id) as agent_id, coalesce(completed_role, requested_role) as role,
           row_number() over w as place,
           lag(coalesce(completed_agent_id, requested_agent_id)) over w as before_id
    from facts.calls
    window w as (partition by episode_id order by coalesce(requested_seq, completed_seq), coalesce(requested_at, completed_at), call_id)
  ),
  -- The other agent that spoke last before a call, and where: carried along its place, since the largest place is the last.
  runs as (
    select *, max(case when agent_id is distinct from before_id and place > 1 then array[lpad((place - 1)::text, 10, '0'), before_id] end)
                over (partition by episode_id order by place) as other
    from spoken
  ),
  states as not materialized (
    select j.*, r.agent_id, r.role, r.place, r.other,
           lag(j.step_id) over own as own_step_id, lag(j.is_right) over own as own_right, lag(r.place) over own as own_place,
           lag(j.step_id) over team as team_step_id, lag(j.is_right) over team as team_right, lag(r.place) over team as team_place
    from judged j join runs r on r.episode_id = j.episode_id and r.call_id = j.call_id
    where j.is_right is not null
    window own as (partition by j.episode_id, j.basis, j.name, r.agent_id order by r.place),
           team as (partition by j.episode_id, j.basis, j.name order by r.place)
  ),
  compared as (
    select s.*, case when p.step_id is not null then 'revision' when s.agent_id is not null and s.own_step_id is not null then 'own' else 'team' end as compared_with,
           case when p.step_id is not null then p.step_id when s.agent_id is not null and s.own_step_id is not null then s.own_step_id else s.team_step_id end as before_step_id,
           case when p.step_id is not null then p.is_right when s.agent_id is not null and s.own_step_id is not null then s.own_right else s.team_right end as was_right,
           case when p.step_id is not null then p.place when s.agent_id is not null and s.own_step_id is not null then s.own_place else s.team_place end as before_place
    from states s
    left join states p on p.episode_id = s.episode_id and p.basis = s.basis and p.name = s.name and p.step_id = s.parent_step_id
  )
  select c.episode_id, o.task_id, o.team_id, c.basis, c.name, c.step_id, c.agent_id, coalesce(a.name, c.agent_id) as agent,
         coalesce(c.role, a.role, a.name, a.agent_id collate "default") as role, c.compared_with, c.before_step_id, c.was_right, c.is_right,
         case when c.was_right = c.is_right then case when c.is_right then 'stayed right' else 'stayed wrong' end
              when c.is_right then 'corrected' else 'spoiled' end as change,
         b.agent_id as after_agent_id, coalesce(b.name, b.agent_id) as after_agent, coalesce(b.role, b.name, b.agent_id collate "default") as after_role, o.solved
  from compared c
  left join traj.outcomes o on o.episode_id = c.episode_id
  left join facts.agents a on a.episode_id = c.episode_id and a.agent_id = c.agent_id
  left join facts.agents b on b.episode_id = c.episode_id and b.agent_id = c.other[2] and c.other[1]::bigint >= c.before_place
  where c.before_step_id is not null;
