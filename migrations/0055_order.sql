--! everything in an episode has a place in its order, also where its source numbers nothing
-- By the row alone: the same after a rebuild, and in whatever order events arrive. Traces number by their beginning in microseconds, too.
create function troupe.seq_of(given bigint, occurred_at timestamptz, turn integer) returns bigint language sql stable parallel safe as $$
  select coalesce(given, (extract(epoch from occurred_at) * 1000000)::bigint, turn, 0)
$$;
comment on function troupe.seq_of is 'The place of something in the order of its episode: the number of its source, else its time in microseconds, else its turn.';

create or replace view traj.steps as
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
         troupe.untrainable(c.copied, c.error, c.completed_flags, s.token_ids, c.prompt_token_ids, s.logprobs, c.checkpoint_id, c.model_version, c.params) as untrainable
  from facts.steps s
  join facts.calls c using (episode_id, call_id)
  left join facts.episodes e using (episode_id)
  left join facts.agents a on a.episode_id = s.episode_id and a.agent_id = coalesce(c.completed_agent_id, c.requested_agent_id);

create or replace view traj.messages as
  select c.episode_id, c.call_id || '#' || i.place as message_id, 'input' as kind, c.call_id, i.place,
         i.message ->> 'name' as sender, i.message ->> 'role' as role,
         case json_typeof(i.message -> 'content')
           when 'string' then i.message ->> 'content'
           when 'array' then (
             select string_agg(said.part #>> '{}', E'\n' order by p.n) from json_array_elements(i.message -> 'content') with ordinality as p (part, n)
             cross join lateral (select case when coalesce(json_typeof(p.part -> 'content'), 'null') = 'null' then p.part -> 'text' else p.part -> 'content' end as part) said
             where p.part ->> 'type' = 'text' and json_typeof(said.part) = 'string')
         end as text,
         case
           when o.others is not null
             then ('{"parts":' || case when json_typeof(i.message -> 'content') = 'array' then (i.message -> 'content')::text else 'null' end || o.others || '}')::json
           when json_typeof(i.message -> 'content') = 'array' then i.message -> 'content'
         end as content,
         null::text as channel, coalesce(c.requested_turn, c.completed_turn) as turn, troupe.seq_of(coalesce(c.requested_seq, c.completed_seq), coalesce(c.requested_at, c.completed_at), coalesce(c.completed_turn, c.requested_turn)) as seq, c.requested_at as at,
         case when json_typeof(i.message -> 'content') = 'string' then '{}' else
           array(select m[1] from regexp_matches((i.message -> 'content')::text, '"artifact_id" : "([0-9a-f]{64})"', 'g') as m) end as artifacts
  from facts.calls c
  cross join lateral troupe.messages_shown('e/' || c.episode_id, c.context) i
  cross join lateral (
    select string_agg(',' || to_json(m.key)::text || ':' || m.value::text, '' order by m.n) as others
    from json_each(i.message) with ordinality as m (key, value, n) where m.key not in ('role', 'content', 'name')
  ) o
  union all
  select m.episode_id, m.message_id, 'sent', m.call_id, null, m.sender, m.role,
         case when starts_with(m.text, E'\uFFFE#') then troupe.text_shown('e/' || m.episode_id, m.text) else m.text end collate "default",
         s.content, m.channel, m.turn, troupe.seq_of(m.seq, m.sent_at, m.turn), m.sent_at,
         array(select a[1] from regexp_matches(s.content::text, '"artifact_id" : "([0-9a-f]{64})"', 'g') as a)
  from facts.messages m
  cross join lateral (
    select case when position(E'"\uFFFE#' in m.content::text) > 0 then troupe.json_short('e/' || m.episode_id, m.content) else m.content end as content
  ) s;

create or replace view traj.tool_calls as
  select episode_id, tool_call_id, call_id, tool_index as index, agent_id, name, type, arguments, arguments_raw, parse_error, status,
         case when position(E'"\uFFFE#' in output::text) > 0 then troupe.json_short('e/' || episode_id, output) else output end as output, error,
         duration_ms, from_cache, truncated, turn, troupe.seq_of(coalesce(seq, returned_seq), coalesce(called_at, returned_at), turn) as seq, called_at, returned_at, returned_flags as flags, parent_tool_call_id
  from facts.tool_calls;

create or replace view traj.observations as
  select o.episode_id, o.kind,
         case when position(E'"\uFFFE#' in o.content::text) > 0 then troupe.json_short('e/' || o.episode_id, o.content) else o.content end as content,
         case when position(E'"\uFFFE#' in o.state::text) > 0 then troupe.json_short('e/' || o.episode_id, o.state) else o.state end as state,
         o.call_id, o.turn, troupe.seq_of(o.seq, o.occurred_at, o.turn) as seq, o.occurred_at as at,
         case when position(E'"\uFFFE#' in o.unmapped::text) > 0 then troupe.json_short('e/' || o.episode_id, o.unmapped) else o.unmapped end as unmapped,
         o.event_source, o.event_id
  from facts.observations o;

create or replace view traj.decisions as
  select episode_id, event_id as decision_id, author as "by", kind, decision, turn, troupe.seq_of(seq, occurred_at, turn) as seq, occurred_at as at from facts.decisions;

comment on column traj.steps.seq is 'order inside the episode, never null: the number that the source gives its call, else the beginning of the call in microseconds since 1970 (its end where that is unknown), else its turn; order by seq, step_id';
comment on column traj.messages.seq is 'as in traj.steps; of an input the number of its call';
comment on column traj.tool_calls.seq is 'as in traj.steps, by the time of the call; of a result without a call by that of the result';
comment on column traj.observations.seq is 'as in traj.steps';
comment on column traj.decisions.seq is 'as in traj.steps';
