create view traj.dataset_rows as
  select r.dataset_id, r.split, (r.row + c.place - 1)::integer as row, r.episode_id, r.call_id, c.candidate, r.call_id || '/' || c.candidate as step_id
  from facts.dataset_rows r cross join lateral unnest(r.candidates) with ordinality as c (candidate, place);

comment on view traj.dataset_rows is 'Which dataset row contains which step or episode.';
