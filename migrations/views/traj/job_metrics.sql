create view traj.job_metrics as select job_id, step, name, value, occurred_at as at from facts.job_metrics;

comment on view traj.job_metrics is 'Metrics reported by jobs, by step.';
