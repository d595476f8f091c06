--! states and kinds with a closed list of values are checked
-- The lists are those of ingest/events.ts, of the methods and of the queue; a test compares them. Kinds that a producer may name freely
-- (of decisions, observations and jobs) stay open.
alter table facts.episodes add constraint episodes_outcome_check
  check (outcome in ('success', 'failure', 'error', 'timeout', 'aborted', 'unknown'));
alter table facts.tool_calls add constraint tool_calls_status_check
  check (status in ('ok', 'error', 'timeout', 'denied', 'cancelled'));
alter table facts.feedback add constraint feedback_kind_check
  check (kind in ('reward', 'score', 'label', 'preference', 'failure', 'execution'));
alter table facts.feedback add constraint feedback_target_kind_check
  check (target_kind in ('episode', 'agent', 'call', 'step', 'message', 'tool_call', 'task', 'group', 'pair', 'checkpoint', 'foreign'));
alter table facts.artifacts add constraint artifacts_role_check
  check (role in ('patch', 'code', 'file', 'image', 'log', 'raw-record', 'checkpoint', 'dataset'));
alter table facts.jobs add constraint jobs_outcome_check check (outcome in ('done', 'failed', 'cancelled'));
alter table troupe.job_queue add constraint job_queue_outcome_check check (outcome in ('done', 'failed', 'cancelled'));
alter table facts.judged_methods add constraint judged_methods_kind_check
  check (kind in ('filter', 'score', 'reward', 'credit', 'process', 'blame', 'loss'));
