-- Starts from episodes, which has a row for every episode in the tables, so a join with a few episodes reads only their rows.
create view report.corrections as
  select e.episode_id, x.task_id, x.team_id, x.basis, x.name, x.step_id, x.agent_id, x.agent, x.role, x.compared_with, x.before_step_id,
         x.was_right, x.is_right, x.change, x.after_agent_id, x.after_agent, x.after_role, x.solved
  from facts.episodes e cross join lateral (
    with feedback as (
      select distinct on (coalesce(f.episode_id, f.resolved_episode_id), f.name, f.target_id) coalesce(f.episode_id, f.resolved_episode_id) as episode_id, f.name, f.target_id as step_id,
             case when f.kind = 'reward' and f.value >= 1 then true
                  when f.kind = 'reward' and f.value <= 0 then false
                  when f.kind <> 'reward' and json_typeof(f.value_json) = 'boolean' then f.value = 1
                  when lower(f.label) in ('correct', 'right') then true
                  when lower(f.label) in ('incorrect', 'wrong') then false end as is_right
      from facts.feedback f
      where coalesce(f.episode_id, f.resolved_episode_id) = e.episode_id and f.target_kind = 'step' and f.kind in ('reward', 'score', 'label')
      order by coalesce(f.episode_id, f.resolved_episode_id), f.name, f.target_id, f.version desc
    ),
    said as (
      select episode_id, 'feedback' as basis, name, step_id, is_right from feedback
      union all
      select v.episode_id, 'verdict', v.method_key, v.step_id, v.keep
      from facts.verdicts v join facts.judged_methods m using (method_key)
      where v.episode_id = e.episode_id and v.step_id <> '' and m.method in ('correctness_filter', 'public_tests_filter')
      union all
      -- A step in several matrices of one name is right if it is right in all of them.
      select x.episode_id, 'execution', x.name, x.step_id, case when bool_or(x.is_right is false) then false when bool_and(x.is_right is not null) then true end
      from (
        select coalesce(f.episode_id, f.resolved_episode_id) as episode_id, f.name, p.step_id,
               case when p.valid is false then false else report.passes_truth(report.cell_letters(p.cells, length(m.truth)), m.truth) end as is_right
        from facts.feedback f
        cross join lateral (
          select string_agg(case when t.ground_truth then '1' else '_' end, '' order by t.place) as truth
          from rows from (json_to_recordset(f.matrix -> 'tests') as (ground_truth boolean)) with ordinality as t (ground_truth, place)
          having bool_or(t.ground_truth)
        ) m
        cross join lateral rows from (
          json_to_recordset(f.matrix -> 'programs') as (step_id text, valid boolean),
          json_array_elements(f.matrix -> 'pass')
        ) as p (step_id, valid, cells)
        where coalesce(f.episode_id, f.resolved_episode_id) = e.episode_id and f.kind = 'execution' and f.matrix is not null and p.step_id is not null
      ) x
      group by x.episode_id, x.name, x.step_id
    ),
    judged as (
      select s.episode_id, s.basis, s.name, p.call_id,
             case when count(*) = 1 then min(s.step_id) else min(s.step_id) filter (where p.chosen) end as step_id,
             case when count(*) = 1 then bool_or(s.is_right) else bool_or(s.is_right) filter (where p.chosen) end as is_right,
             case when count(*) = 1 then min(p.parent_step_id) else min(p.parent_step_id) filter (where p.chosen) end as parent_step_id
      from said s
      join facts.steps p on p.episode_id = s.episode_id and p.call_id = traj.call_of(s.step_id) and p.call_id || '/' || p.candidate = s.step_id
      group by s.episode_id, s.basis, s.name, p.call_id
    ),
    spoken as (
      select episode_id, call_id, coalesce(completed_agent_id, requested_agent_id) as agent_id, coalesce(completed_role, requested_role) as role,
             row_number() over w as place,
             lag(coalesce(completed_agent_id, requested_agent_id)) over w as before_id
      from facts.calls where episode_id = e.episode_id
      window w as (partition by episode_id order by coalesce(requested_seq, completed_seq), coalesce(requested_at, completed_at), call_id)
    ),
    -- The last other agent with a call before this one, carried with its place: the largest place is the last.
    runs as (
      select *, max(case when agent_id is distinct from before_id and place > 1 then array[lpad((place - 1)::text, 10, '0'), before_id] end)
                  over (partition by episode_id order by place) as other
      from spoken
    ),
    -- Finds the revised step among all steps judged by the same measure; a join would compare every pair.
    states as (
      select j.*, r.agent_id, r.role, r.place, r.other,
             lag(j.step_id) over own as own_step_id, lag(j.is_right) over own as own_right, lag(r.place) over own as own_place,
             lag(j.step_id) over team as team_step_id, lag(j.is_right) over team as team_right, lag(r.place) over team as team_place,
             array_agg(j.step_id) over measure as step_ids, array_agg(j.is_right) over measure as rights, array_agg(r.place) over measure as places
      from judged j join runs r on r.episode_id = j.episode_id and r.call_id = j.call_id
      where j.is_right is not null
      window measure as (partition by j.episode_id, j.basis, j.name),
             own as (partition by j.episode_id, j.basis, j.name, r.agent_id order by r.place),
             team as (partition by j.episode_id, j.basis, j.name order by r.place)
    ),
    compared as (
      select s.*, case when p.n is not null then 'revision' when s.agent_id is not null and s.own_step_id is not null then 'own' else 'team' end as compared_with,
             case when p.n is not null then s.parent_step_id when s.agent_id is not null and s.own_step_id is not null then s.own_step_id else s.team_step_id end as before_step_id,
             case when p.n is not null then s.rights[p.n] when s.agent_id is not null and s.own_step_id is not null then s.own_right else s.team_right end as was_right,
             case when p.n is not null then s.places[p.n] when s.agent_id is not null and s.own_step_id is not null then s.own_place else s.team_place end as before_place
      from states s
      cross join lateral (select case when s.parent_step_id is not null then array_position(s.step_ids, s.parent_step_id) end as n) p
    )
    select c.episode_id, o.task_id, o.team_id, c.basis, c.name, c.step_id, c.agent_id, coalesce(a.name, c.agent_id) as agent,
           coalesce(c.role, a.role, a.name, a.agent_id collate "default") as role, c.compared_with, c.before_step_id, c.was_right, c.is_right,
           case when c.was_right = c.is_right then case when c.is_right then 'stayed right' else 'stayed wrong' end
                when c.is_right then 'corrected' else 'spoiled' end as change,
           b.agent_id as after_agent_id, coalesce(b.name, b.agent_id) as after_agent, coalesce(b.role, b.name, b.agent_id collate "default") as after_role, o.solved
    from compared c
    left join report.outcomes o on o.episode_id = c.episode_id
    left join facts.agents a on a.episode_id = c.episode_id and a.agent_id = c.agent_id
    left join facts.agents b on b.episode_id = c.episode_id and b.agent_id = c.other[2] and c.other[1]::bigint >= c.before_place
    where c.before_step_id is not null
  ) x;

comment on view report.corrections is 'A step judged right or wrong, with an earlier one by the same measure: corrected (wrong, then right), spoiled (right, then wrong), or stayed. The judgement comes from feedback on the step (a reward of 1 or more or of 0 or less, a boolean score or label, a label correct, right, incorrect, wrong), from step verdicts of correctness_filter and public_tests_filter, or from all ground-truth tests of an execution matrix. Unjudged steps are skipped; of several candidates of a call only the chosen one counts. Rows compared with team mislead if agents answer side by side and nobody revises.';
comment on column report.corrections.basis is 'feedback, verdict or execution; name is the feedback, the method_key or the matrix. Count one at a time';
comment on column report.corrections.compared_with is 'revision: the step it revises (parent_step_id); own: the same agent''s previous judged step; team: otherwise anyone''s previous judged step';
comment on column report.corrections.after_agent is 'the last other agent with a call between the two, the earlier step included; null if there is none';
