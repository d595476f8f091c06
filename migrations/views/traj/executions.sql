create view traj.executions as
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

comment on view traj.executions is 'One row for each cell of an execution matrix: whether this program passed this test; null = not run. reference and ground_truth mark the truth.';
