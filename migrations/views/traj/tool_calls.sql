create view traj.tool_calls as
  select episode_id, tool_call_id, call_id, tool_index as index, agent_id, name, type,
         case when json_typeof(arguments) = 'object' and arguments_raw ~ '^\s*\{' and position(E'\uFFFE' in arguments::text) = 0
              then troupe.json_or(arguments_raw, arguments) else arguments end as arguments,
         arguments_raw, parse_error, status,
         case when position(E'"\uFFFE#' in output::text) > 0 then troupe.json_short('e/' || episode_id, output) else output end as output, error,
         duration_ms, from_cache, truncated, turn, troupe.seq_of(coalesce(seq, returned_seq), coalesce(called_at, returned_at), turn) as seq, called_at, returned_at, returned_flags as flags, parent_tool_call_id
  from facts.tool_calls;

comment on view traj.tool_calls is 'One row for each emitted tool call; status is null before a result arrives, name is null for a result without a call.';
comment on column traj.tool_calls.arguments is 'in the order and with the numbers of the source; null if the model wrote no JSON object';
comment on column traj.tool_calls.arguments_raw is 'the arguments as text, as a model is trained on them';
comment on column traj.tool_calls.seq is 'as in traj.steps, by the time of the call; for a result without a call by the time of the result';
comment on column traj.tool_calls.flags is 'of the result: apparent_error = by the rules of its format, the output reports an error although the source says ok';
comment on column traj.tool_calls.parent_tool_call_id is 'the tool call whose code made this call';
