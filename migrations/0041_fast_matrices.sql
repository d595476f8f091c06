--! execution matrices, corrections and redactions that are read fast
--! works with 40
-- The same answers as before but for one: a program of which a ground-truth test was not run, and that failed none, is neither right nor
-- wrong in traj.execution_authors, as its comment and traj.corrections say; it was wrong there.

-- Cells are compared as texts with a letter for each: a set-returning function for each program costs ten times that. Both functions
-- are expressions without a subquery, so that the planner puts them into the query.
create function traj.cell_letters(cells json, tests integer) returns text language sql immutable parallel safe
return rpad(translate(replace(coalesce(cells::text, ''), 'null', 'n'), E'[], \t\r\n', ''), tests, 'n');
comment on function traj.cell_letters(json, integer) is 'The cells of a program as a letter for each test: 1 passed, 0 failed, n not run.';

create function traj.passes_truth(letters text, truth text) returns boolean language sql immutable parallel safe
return case when truth is null or strpos(truth, '1') = 0 then null
            when letters like truth then true
            when letters ~ replace(replace(truth, '1', '[1n]'), '_', '.') then null
            else false end;
comment on function traj.passes_truth(text, text) is 'Whether a program with these cells passed every ground-truth test, which are 1 in truth, the others _; null where there is none, or one was not run and none failed.';

create or replace view traj.executions as
  select coalesce(f.episode_id, f.resolved_episode_id) as episode_id, f.feedback_id, f.name,
         (p.place - 1)::integer as program, p.step_id as program_step_id, p.name as program_name, p.valid as program_valid, coalesce(p.reference, false) as reference,
         t.place - 1 as test, t.step_id as test_step_id, t.name as test_name, t.valid as test_valid,
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
  cross join lateral (select string_to_array(translate(p.cells::text, E'[] \t\r\n', ''), ',') as cells) c
  cross join lateral (
    select unnest(m.step_ids) as step_id, unnest(m.names) as name, unnest(m.valids) as valid, unnest(m.truths) as ground_truth, unnest(m.publics) as public,
           unnest(c.cells) as cell, generate_series(1, greatest(cardinality(m.step_ids), cardinality(c.cells))) as place
  ) t
  where f.kind = 'execution' and f.matrix is not null;

create or replace view traj.execution_authors as
  select k.episode_id, f.feedback_id, f.name, (p.place - 1)::integer as program, p.step_id as program_step_id, p.name as program_name,
         p.agent as program_agent, p.role as program_role, p.valid as program_valid, p.is_right as program_right, p.verdicts as program_verdicts,
         t.place - 1 as test, t.step_id as test_step_id, t.name as test_name, t.agent as test_agent, t.role as test_role, t.valid as test_valid,
         coalesce(t.ground_truth, false) as ground_truth, coalesce(t.public, false) as public, coalesce(p.reference, false) as reference,
         t.verdicts as test_verdicts, case t.cell when '1' then true when '0' then false end as pass
  from facts.feedback f
  cross join lateral (select coalesce(f.episode_id, f.resolved_episode_id) as episode_id) k
  -- Authors and verdicts of the episode, read once; each test and each program finds its own in them.
  cross join lateral (
    select array_agg(c.call_id) as calls, array_agg(coalesce(a.name, a.agent_id)) as agents,
           array_agg(coalesce(c.completed_role, c.requested_role, a.role, a.name, a.agent_id collate "default")) as roles
    from facts.calls c
    left join facts.agents a on a.episode_id = k.episode_id and a.agent_id = coalesce(c.completed_agent_id, c.requested_agent_id)
    where c.episode_id = k.episode_id
  ) w
  cross join lateral (
    select array_agg(v.step_id) as steps, array_agg(v.verdicts) as verdicts
    from (
      select v.step_id, json_object_agg(v.method_key, v.keep order by v.method_key) as verdicts
      from facts.verdicts v where v.episode_id = k.episode_id and v.step_id <> '' group by v.step_id
    ) v
  ) v
  cross join lateral (
    select array_agg(t.step_id order by t.place) as step_ids, array_agg(t.name order by t.place) as names, array_agg(t.valid order by t.place) as valids,
           array_agg(t.ground_truth order by t.place) as truths, array_agg(t.public order by t.place) as publics,
           array_agg(w.agents[array_position(w.calls, traj.call_of(t.step_id))] order by t.place) as agents,
           array_agg(w.roles[array_position(w.calls, traj.call_of(t.step_id))] order by t.place) as roles,
           array_agg(v.verdicts[array_position(v.steps, t.step_id)] order by t.place) as verdicts,
           string_agg(case when t.ground_truth then '1' else '_' end, '' order by t.place) as truth
    from rows from (json_to_recordset(f.matrix -> 'tests') as (step_id text, name text, valid boolean, ground_truth boolean, public boolean))
         with ordinality as t (step_id, name, valid, ground_truth, public, place)
  ) m
  cross join lateral (
    select p.*, w.agents[array_position(w.calls, traj.call_of(p.step_id))] as agent, w.roles[array_position(w.calls, traj.call_of(p.step_id))] as role,
           v.verdicts[array_position(v.steps, p.step_id)] as verdicts, string_to_array(translate(p.cells::text, E'[] \t\r\n', ''), ',') as passed,
           case when p.valid is false then false else traj.passes_truth(traj.cell_letters(p.cells, length(m.truth)), m.truth) end as is_right
    from rows from (
      json_to_recordset(f.matrix -> 'programs') as (step_id text, name text, valid boolean, reference boolean),
      json_array_elements(f.matrix -> 'pass')
    ) with ordinality as p (step_id, name, valid, reference, cells, place)
    -- Once for each program, not for each of its cells.
    offset 0
  ) p
  cross join lateral (
    select unnest(m.step_ids) as step_id, unnest(m.names) as name, unnest(m.valids) as valid, unnest(m.truths) as ground_truth, unnest(m.publics) as public,
           unnest(m.agents) as agent, unnest(m.roles) as role, unnest(m.verdicts) as verdicts,
           unnest(p.passed) as cell, generate_series(1, greatest(cardinality(m.step_ids), cardinality(p.passed))) as place
  ) t
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
  said as (
    select episode_id, 'feedback' as basis, name, step_id, is_right from feedback
    union all
    select v.episode_id, 'verdict', v.method_key, v.step_id, v.keep
    from facts.verdicts v join facts.judged_methods m using (method_key)
    where v.step_id <> '' and m.method in ('correctness_filter', 'public_tests_filter')
    union all
    -- A step may stand in several matrices of one name: it is right where it is right in all of them.
    select x.episode_id, 'execution', x.name, x.step_id, case when bool_or(x.is_right is false) then false when bool_and(x.is_right is not null) then true end
    from (
      select coalesce(f.episode_id, f.resolved_episode_id) as episode_id, f.name, p.step_id,
             case when p.valid is false then false else traj.passes_truth(traj.cell_letters(p.cells, length(m.truth)), m.truth) end as is_right
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
      where f.kind = 'execution' and f.matrix is not null and p.step_id is not null
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
    from facts.calls
    window w as (partition by episode_id order by coalesce(requested_seq, completed_seq), coalesce(requested_at, completed_at), call_id)
  ),
  -- The other agent that spoke last before a call, and where: carried along its place, since the largest place is the last.
  runs as (
    select *, max(case when agent_id is distinct from before_id and place > 1 then array[lpad((place - 1)::text, 10, '0'), before_id] end)
                over (partition by episode_id order by place) as other
    from spoken
  ),
  -- The step that a step revises is found among all that were judged by the same measure, which a join would compare each with each.
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
  left join traj.outcomes o on o.episode_id = c.episode_id
  left join facts.agents a on a.episode_id = c.episode_id and a.agent_id = c.agent_id
  left join facts.agents b on b.episode_id = c.episode_id and b.agent_id = c.other[2] and c.other[1]::bigint >= c.before_place
  where c.before_step_id is not null;

-- Amendments and events with redactions are few: one index of them alone answers for one key, one episode and all.
drop index troupe.events_key_idx;
create index events_key_idx on troupe.stored_events (key, name, (case when key like 'e/%' then substr(key, 3) end))
  where name = 'record.amended' or strpos(data::text, '"redactions":{') > 0;
create or replace view traj.redactions as
  select e.key, case when e.key like 'e/%' then substr(e.key, 3) end as episode_id, e.source, e.id, e.name as event, r.key as rule,
         case when r.value ~ '^[0-9]{1,9}$' then r.value::integer end as count
  from troupe.stored_events e
  cross join lateral json_each_text(case when json_typeof(e.data -> 'redactions') = 'object' then e.data -> 'redactions' else '{}' end) r
  where strpos(e.data::text, '"redactions":{') > 0;
comment on view traj.redactions is 'Secrets that were replaced before the log, a row for each event and rule. The value is nowhere; a mark with the name of the rule stands where it was.';
