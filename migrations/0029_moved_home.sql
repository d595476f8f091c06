--! where the files of a restored home are
-- Facts name files by the paths that they had when they were recorded, and facts never change. A restore replaces this function, which
-- costs no table: `former` are the folders that the home had before, `root` is the one that it has now.
create function troupe.moved_home() returns json language sql immutable parallel safe
begin atomic
  select '{"former": [], "root": null}'::json;
end;

-- Where a path of a fact is now. What lies outside the home stays as it is.
create function troupe.path_here(path text) returns text language sql immutable parallel safe
begin atomic
  select coalesce(
    (select (troupe.moved_home() ->> 'root') || substr(path, length(former) + 1)
     from json_array_elements_text(troupe.moved_home() -> 'former') former
     where starts_with(path, former || '/')
     order by length(former) desc limit 1),
    path);
end;

create or replace view traj.datasets as
  select dataset_id, name, sha256, troupe.path_here(uri) as uri, manifest, frozen_at from facts.datasets;

create or replace view traj.checkpoints as
  select checkpoint_id, parent_id, policy, troupe.path_here(uri) as uri, sha256, step, dataset_ids, job_id, kept, config, metrics, code_version, saved_at
  from facts.checkpoints;
