--! why a step that was sampled without a draw, or among a part of the tokens, cannot be trained on; the parent of a tool call
--! works with 44
-- Two more reasons why a step cannot be trained on as it was sampled, and the tool call that another one made.
create or replace function troupe.untrainable(
  copied boolean, error json, token_ids integer[], prompt_token_ids integer[], logprobs real[], checkpoint_id text, model_version text, params json
) returns text language sql immutable parallel safe as $$
  select case
    when copied then 'copied'
    when error is not null then 'call_failed'
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
comment on column traj.steps.untrainable is 'why not: copied, call_failed, no_token_ids, no_tokens, no_prompt_token_ids, no_logprobs (one for each token), unknown_weights (neither checkpoint nor version), constrained (sampled within a JSON Schema or a forced tool: the log-probabilities are those among the tokens allowed), greedy (temperature 0: the token was not drawn, so its log-probability is not that of the choice), truncated (top_p, top_k or min_p: the policy that is trained also has the tokens that were cut off, so a ratio to it is biased); null where trainable';

alter table facts.tool_calls add column parent_tool_call_id text collate "C";
create or replace view traj.tool_calls as
  select episode_id, tool_call_id, call_id, tool_index as index, agent_id, name, type, arguments, arguments_raw, parse_error, status,
         case when position(E'"\uFFFE#' in output::text) > 0 then troupe.json_shown('e/' || episode_id, output) else output end as output, error,
         duration_ms, from_cache, truncated, turn, seq, called_at, returned_at, returned_flags as flags, parent_tool_call_id
  from facts.tool_calls;
comment on column traj.tool_calls.parent_tool_call_id is 'the tool call whose code made this one';
