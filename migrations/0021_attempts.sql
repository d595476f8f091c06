--! attempts of rollouts
-- An attempt of a rollout is a row of the queue: its job_id is the episode that it plays, its kind is attempt/<runner>. Besides its
-- lease it has a deadline, both by the clock of this server.
alter table troupe.job_queue add column started_at timestamptz, add column deadline_at timestamptz;
