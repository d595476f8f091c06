--! the arguments of tool calls in the order and spelling of their source
-- Whoever sends an event may give a text beside the object that is none.
create function troupe.json_or(written text, otherwise json) returns json language plpgsql immutable as $$
begin
  return written::json;
exception when data_exception then
  return otherwise;
end $$;
comment on function troupe.json_or is 'The text as JSON, or what is given where it is none.';

create or replace view traj.tool_calls as
  select episode_id, tool_call_id, call_id, tool_index as index, agent_id, name, type,
         case when json_typeof(arguments) = 'object' and arguments_raw ~ '^\s*\{' and position(E'\uFFFE' in arguments::text) = 0
              then troupe.json_or(arguments_raw, arguments) else arguments end as arguments,
         arguments_raw, parse_error, status,
         case when position(E'"\uFFFE#' in output::text) > 0 then troupe.json_short('e/' || episode_id, output) else output end as output, error,
         duration_ms, from_cache, truncated, turn, troupe.seq_of(coalesce(seq, returned_seq), coalesce(called_at, returned_at), turn) as seq, called_at, returned_at, returned_flags as flags, parent_tool_call_id
  from facts.tool_calls;

comment on column traj.tool_calls.arguments is 'in the order and with the numbers of the source; null where the model wrote no JSON object';
comment on column traj.tool_calls.arguments_raw is 'the text of the arguments that a model learns';
