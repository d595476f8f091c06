create view traj.episodes as
  select e.episode_id, e.task_id, e.attempt, e.group_id, e.group_size, e.session_id, e.team_id, e.env_id, e.parent_episode_id,
         e.outcome, e.reward, e.answer, e.closed, e.agents, e.calls, e.steps, e.tool_calls, e.messages, e.feedback,
         e.input_tokens, e.output_tokens, e.started_at, e.finished_at, e.last_at, e.stop_reason, e.exit_status,
         e.policies, e.tags, e.flags, e.totals, e.unmapped, e.raw_artifact_id
  from facts.episodes e;

comment on view traj.episodes is 'Attempts by a team at a task. reward is the feedback of kind reward named "reward" on the episode, the last by (time, id) that has a value; null when there is none.';
comment on column traj.episodes.closed is 'true after episode.finished, if nothing later was recorded';
comment on column traj.episodes.calls is 'model calls; steps counts their candidates';
comment on column traj.episodes.tool_calls is 'calls made; a result without a call is only in traj.tool_calls';
comment on column traj.episodes.feedback is 'by the ids of the episode; feedback by a foreign id is only in traj.feedback';
comment on column traj.episodes.input_tokens is 'of calls with a count, without copied ones; null if there are none. The sum omits calls without a count';
comment on column traj.episodes.output_tokens is 'as input_tokens';
comment on column traj.episodes.last_at is 'time of the last call, tool call, message, observation or decision; beginning, end and feedback do not count. Null if none has a time';
