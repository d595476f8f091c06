create view traj.jobs as
  select job_id, kind, plan, parent_job_id, outcome, case when finished_at is not null or outcome is not null then 'finished' when started_version is not null then 'running' else 'requested' end as state,
         spec, result, error, worker, requested_at, started_at, finished_at
  from facts.jobs;

comment on view traj.jobs is 'Training runs and other work.';
