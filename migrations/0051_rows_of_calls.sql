--! rows of a dataset that are candidates of one call stand in one row of its table
-- A row of facts.dataset_rows stood for each row of each dataset, with the ids of dataset, episode and call: in a home of the demo 229,000,
-- where 43,000 calls were frozen. Now "row" is the row of the first of the candidates, and the others follow it. The views are as before.
alter table facts.dataset_rows add column candidates integer[];
create or replace view traj.dataset_rows as
  select r.dataset_id, r.split, (r.row + c.place - 1)::integer as row, r.episode_id, r.call_id, c.candidate, r.call_id || '/' || c.candidate as step_id
  from facts.dataset_rows r cross join lateral unnest(r.candidates) with ordinality as c (candidate, place);
create or replace view traj.lineage as
  select c.checkpoint_id, 'trained on' as relation, d.dataset_id, r.episode_id, r.step_id, null::text as other_checkpoint_id
  from facts.checkpoints c
  cross join lateral json_array_elements_text(c.dataset_ids) as d (dataset_id)
  join traj.dataset_rows r on r.dataset_id = d.dataset_id
  union all
  select c.checkpoint_id, 'child of', null, null, null, c.parent_id from facts.checkpoints c where c.parent_id is not null
  union all
  select c.checkpoint_id, 'adapter over', null, null, null, c.config -> 'adapter' ->> 'base'
  from facts.checkpoints c where c.config -> 'adapter' ->> 'base' is not null
  union all
  select c.checkpoint_id, 'spoke', null, s.episode_id, s.call_id || '/' || s.candidate, null
  from facts.calls c join facts.steps s using (episode_id, call_id)
  where c.checkpoint_id is not null;
create temp table of_calls on commit drop as
  select dataset_id, split, min(row) as row, episode_id, call_id, array_agg(candidate order by row) as candidates
  from (select *, row - row_number() over (partition by dataset_id, split, episode_id, call_id order by row) as run from facts.dataset_rows) r
  -- Whole episodes are rows of their own.
  group by dataset_id, split, episode_id, call_id, run, case when call_id is null then row end;
alter table facts.dataset_rows drop column candidate;
truncate facts.dataset_rows;
insert into facts.dataset_rows (dataset_id, split, row, episode_id, call_id, candidates) select * from of_calls order by 1, 2, 3;
alter table facts.dataset_rows alter column candidates set not null;
