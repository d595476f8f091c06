--! a step of a stream that broke off, or of which the server lost token ids, cannot be trained on as it was sampled
create function troupe.untrainable(
  copied boolean, error json, flags json, token_ids integer[], prompt_token_ids integer[], logprobs real[], checkpoint_id text, model_version text, params json
) returns text language sql immutable parallel safe as $$
  select case
    when copied then 'copied'
    when error is not null then 'call_failed'
    when position('"incomplete"' in flags::text) > 0 then 'incomplete'
    when position('"lost_token_ids"' in flags::text) > 0 and token_ids is null then 'lost_token_ids'
    when token_ids is null then 'no_token_ids'
    when cardinality(token_ids) = 0 then 'no_tokens'
    when coalesce(cardinality(prompt_token_ids), 0) = 0 then 'no_prompt_token_ids'
    when coalesce(cardinality(logprobs), 0) <> cardinality(token_ids) then 'no_logprobs'
    when checkpoint_id is null and model_version is null then 'unknown_weights'
    when coalesce(params #>> '{response_format,type}', params #>> '{text,format,type}', 'text') <> 'text'
      or coalesce(case json_typeof(params -> 'tool_choice') when 'object' then coalesce(params #>> '{tool_choice,type}', '') else params ->> 'tool_choice' end, 'auto') not in ('auto', 'none')
      or coalesce(params -> 'structured_outputs', params -> 'guided_json', params -> 'guided_regex', params -> 'guided_choice', params -> 'guided_grammar') is not null
      then 'constrained'
    when case json_typeof(params -> 'temperature') when 'number' then (params ->> 'temperature')::numeric = 0 end then 'greedy'
    when case json_typeof(params -> 'top_p') when 'number' then (params ->> 'top_p')::numeric < 1 end
      or case json_typeof(params -> 'top_k') when 'number' then (params ->> 'top_k')::numeric > 0 end
      or case json_typeof(params -> 'min_p') when 'number' then (params ->> 'min_p')::numeric > 0 end
      then 'truncated'
  end
$$;
comment on function troupe.untrainable(boolean, json, json, integer[], integer[], real[], text, text, json) is 'Why a step cannot be trained on as sampled; null where it can.';

create or replace view traj.steps as
  select s.episode_id, s.call_id || '/' || s.candidate as step_id, s.call_id, s.candidate,
         coalesce(c.completed_agent_id, c.requested_agent_id) as agent_id,
         coalesce(a.name, c.completed_agent_id, c.requested_agent_id) as agent,
         coalesce(c.completed_role, c.requested_role, a.role, a.name, c.completed_agent_id collate "default", c.requested_agent_id) as role,
         coalesce(c.completed_turn, c.requested_turn) as turn,
         coalesce(c.requested_seq, c.completed_seq) as seq,
         e.task_id, e.group_id, e.team_id,
         s.text, case when position(E'"\uFFFE#' in s.content::text) > 0 then troupe.json_short('e/' || s.episode_id, s.content) else s.content end as content,
         s.finish_reason, s.token_ids, s.logprobs, s.loss_mask, s.chosen, s.parent_step_id,
         c.prompt_token_ids, c.model, c.response_model, c.policy, c.checkpoint_id, c.model_version, c.temperature, c.seed,
         c.input_tokens, c.output_tokens, c.latency_ms, c.error, c.requested_at, c.completed_at,
         case when coalesce(c.completed_role, c.requested_role, a.role) is not null then 'given'
              when coalesce(c.completed_agent_id, c.requested_agent_id) is not null then 'agent name' end as role_source,
         troupe.untrainable(c.copied, c.error, c.completed_flags, s.token_ids, c.prompt_token_ids, s.logprobs, c.checkpoint_id, c.model_version, c.params) is null as trainable,
         troupe.untrainable(c.copied, c.error, c.completed_flags, s.token_ids, c.prompt_token_ids, s.logprobs, c.checkpoint_id, c.model_version, c.params) as untrainable
  from facts.steps s
  join facts.calls c using (episode_id, call_id)
  left join facts.episodes e using (episode_id)
  left join facts.agents a on a.episode_id = s.episode_id and a.agent_id = coalesce(c.completed_agent_id, c.requested_agent_id);
comment on column traj.steps.untrainable is 'why not: copied, call_failed, incomplete (a stream ended before its last event), lost_token_ids (the server returned fewer than it counted), no_token_ids, no_tokens, no_prompt_token_ids, no_logprobs (one for each token), unknown_weights (neither checkpoint nor version), constrained (sampled within a JSON Schema or a forced tool: the log-probabilities are those among the tokens allowed), greedy (temperature 0: the token was not drawn, so its log-probability is not that of the choice), truncated (top_p, top_k or min_p: the policy that is trained also has the tokens that were cut off, so a ratio to it is biased); null where trainable';
drop function troupe.untrainable(boolean, json, integer[], integer[], real[], text, text, json);
