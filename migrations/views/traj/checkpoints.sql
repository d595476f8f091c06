create view traj.checkpoints as
  select checkpoint_id, parent_id, policy, troupe.path_here(uri) as uri, sha256, step, dataset_ids, job_id, kept, config, metrics, code_version, saved_at,
         (select json_agg(p.process_id order by p.process_id) from troupe.processes p cross join jsonb_array_elements(p.models) m
          where p.role = 'infer' and p.heartbeat_at > clock_timestamp() - interval '15 seconds'
            and m ->> 'name' = p.policy and m ->> 'checkpoint' = c.checkpoint_id) as served_by
  from facts.checkpoints c;

comment on view traj.checkpoints is 'Weights with their lineage. kept is false for live weights between two checkpoints, whose files no longer exist.';
comment on column traj.checkpoints.served_by is 'The sampling processes that serve it for their policy now; null if none does.';
