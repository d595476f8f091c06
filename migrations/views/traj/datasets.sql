create view traj.datasets as
  select dataset_id, name, sha256, troupe.path_here(uri) as uri, manifest, frozen_at from facts.datasets;

comment on view traj.datasets is 'Frozen recipes. The manifest has recipe, positions, hashes and funnel.';
