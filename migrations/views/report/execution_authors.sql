create view report.execution_authors as
  select k.episode_id, f.feedback_id, f.name, (p.place - 1)::integer as program, p.step_id as program_step_id, p.name as program_name,
         p.agent as program_agent, p.role as program_role, p.valid as program_valid, p.is_right as program_right, p.verdicts as program_verdicts,
         t.place - 1 as test, t.step_id as test_step_id, t.name as test_name, t.agent as test_agent, t.role as test_role, t.valid as test_valid,
         coalesce(t.ground_truth, false) as ground_truth, coalesce(t.public, false) as public, coalesce(p.reference, false) as reference,
         t.verdicts as test_verdicts, case t.cell when '1' then true when '0' then false end as pass
  from facts.feedback f
  cross join lateral (select coalesce(f.episode_id, f.resolved_episode_id) as episode_id) k
  -- Authors and verdicts of the episode, read once and looked up for each test and program.
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
           case when p.valid is false then false else report.passes_truth(report.cell_letters(p.cells, length(m.truth)), m.truth) end as is_right
    from rows from (
      json_to_recordset(f.matrix -> 'programs') as (step_id text, name text, valid boolean, reference boolean),
      json_array_elements(f.matrix -> 'pass')
    ) with ordinality as p (step_id, name, valid, reference, cells, place)
    -- Once per program, not per cell.
    offset 0
  ) p
  cross join lateral (
    select unnest(m.step_ids) as step_id, unnest(m.names) as name, unnest(m.valids) as valid, unnest(m.truths) as ground_truth, unnest(m.publics) as public,
           unnest(m.agents) as agent, unnest(m.roles) as role, unnest(m.verdicts) as verdicts,
           unnest(p.passed) as cell, generate_series(1, greatest(cardinality(m.step_ids), cardinality(p.passed))) as place
  ) t
  where f.kind = 'execution' and f.matrix is not null;

comment on view report.execution_authors is 'Every cell of an execution matrix, with the authors of program and test and the verdicts of filters on each. An episode can have several matrices: choose one by name or feedback_id, or cells count twice. pass null means not run.';
comment on column report.execution_authors.program_right is 'passes every ground-truth test of the matrix; null if there is none, or if one was not run and none failed';
comment on column report.execution_authors.program_verdicts is 'keep by method_key; null if no filter judged it';
