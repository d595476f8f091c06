create view traj.steps as
  select s.episode_id, s.call_id || '/' || s.candidate as step_id, s.call_id, s.candidate,
         coalesce(c.completed_agent_id, c.requested_agent_id) as agent_id,
         coalesce(a.name, c.completed_agent_id, c.requested_agent_id) as agent,
         coalesce(c.completed_role, c.requested_role, a.role, a.name, c.completed_agent_id collate "default", c.requested_agent_id) as role,
         coalesce(c.completed_turn, c.requested_turn) as turn,
         troupe.seq_of(coalesce(c.requested_seq, c.completed_seq), coalesce(c.requested_at, c.completed_at), coalesce(c.completed_turn, c.requested_turn)) as seq,
         e.task_id, e.group_id, e.team_id,
         s.text, case when position(E'"\uFFFE#' in s.content::text) > 0 then troupe.json_short('e/' || s.episode_id, s.content) else s.content end as content,
         s.finish_reason, s.token_ids, s.logprobs, s.loss_mask, s.chosen, s.parent_step_id,
         c.prompt_token_ids, c.model, c.response_model, c.policy, c.checkpoint_id, c.model_version, c.temperature, c.seed,
         c.input_tokens, c.output_tokens, c.latency_ms, c.error, c.requested_at, c.completed_at,
         case when coalesce(c.completed_role, c.requested_role, a.role) is not null then 'given'
              when coalesce(c.completed_agent_id, c.requested_agent_id) is not null then 'agent name' end as role_source,
         troupe.untrainable(c.copied, c.error, c.completed_flags, s.token_ids, c.prompt_token_ids, s.logprobs, c.checkpoint_id, c.model_version, c.params) is null as trainable,
         troupe.untrainable(c.copied, c.error, c.completed_flags, s.token_ids, c.prompt_token_ids, s.logprobs, c.checkpoint_id, c.model_version, c.params) as untrainable,
         (c.usage ->> 'cost_usd')::double precision as cost_usd
  from facts.steps s
  join facts.calls c using (episode_id, call_id)
  left join facts.episodes e using (episode_id)
  left join facts.agents a on a.episode_id = s.episode_id and a.agent_id = coalesce(c.completed_agent_id, c.requested_agent_id);

comment on view traj.steps is 'One row for each candidate output of a model call. A call with n choices is n steps; at most one is chosen.';
comment on column traj.steps.role is 'the recorded role of the call or agent, otherwise the name of the agent';
comment on column traj.steps.seq is 'order inside the episode, never null: the source''s number of the call, otherwise the call''s start in microseconds since 1970 (its end if that is unknown), otherwise its turn; order by seq, step_id';
comment on column traj.steps.logprobs is 'under the distribution the tokens were sampled from';
comment on column traj.steps.checkpoint_id is 'the weights that generated it, if known';
comment on column traj.steps.role_source is 'given, or agent name if no role was recorded; null if the agent is unknown';
comment on column traj.steps.trainable is 'whether a policy gradient can be computed from it as sampled';
comment on column traj.steps.untrainable is 'why not: copied, call_failed, incomplete (a stream ended before its last event), lost_token_ids (the server returned fewer than it counted), no_token_ids, no_tokens, no_prompt_token_ids, no_logprobs (one for each token), unknown_weights (neither checkpoint nor version), constrained (sampled within a JSON Schema or a forced tool: the log-probabilities are relative to the allowed tokens), greedy (temperature 0: the token was not drawn, so its log-probability is not that of the choice), truncated (top_p, top_k or min_p: the trained policy includes the cut-off tokens, so the ratio is biased); null if trainable';
comment on column traj.steps.cost_usd is 'US dollars of the call, from its source or the price of its upstream; null if neither has it. Candidates of a call repeat it, as they repeat its tokens';
