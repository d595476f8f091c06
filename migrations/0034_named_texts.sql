--! long texts of agents, messages and tool results lie once, as bodies
-- The system prompt of each episode stood in its event, its agent and its first message; an output in its event and its row. Now the row
-- names the body that the event names. ingest/log/split.ts makes the names.
create function troupe.text_shown(of_key text, said text) returns text
  language sql stable security definer set search_path = pg_catalog as $$
  select case when starts_with(said, E'\uFFFE#') then troupe.text_named(of_key, substr(said, 3)::uuid) else said end
$$;
create function troupe.json_shown(of_key text, said json) returns json
  language sql stable security definer set search_path = pg_catalog as $$
  select troupe.with_texts(of_key, said::text)::json
$$;

-- The hash of a text that follows nothing, as split.ts takes it.
create temp table long_texts on commit drop as
  select 'e/' || t.episode_id as key, t.text,
         substr(encode(sha256(convert_to(E'\n\uFFFE#' || t.text, 'UTF8')), 'hex'), 1, 32)::uuid as hash
  from (
    select episode_id, system_instructions as text from facts.agents
    union select episode_id, text from facts.messages
    union select episode_id, output #>> '{}' from facts.tool_calls where json_typeof(output) = 'string'
  ) t
  where char_length(t.text) > 512;
insert into troupe.bodies (key, hash, body) select key, hash, text from long_texts on conflict do nothing;
create index on long_texts (key, md5(text));
analyze long_texts;
update facts.agents a set system_instructions = E'\uFFFE#' || l.hash from long_texts l
  where l.key = 'e/' || a.episode_id and md5(l.text) = md5(a.system_instructions) and l.text = a.system_instructions;
update facts.messages m set text = E'\uFFFE#' || l.hash from long_texts l
  where l.key = 'e/' || m.episode_id and md5(l.text) = md5(m.text) and l.text = m.text;
update facts.tool_calls c set output = to_json(E'\uFFFE#' || l.hash) from long_texts l
  where json_typeof(c.output) = 'string' and l.key = 'e/' || c.episode_id and md5(l.text) = md5(c.output #>> '{}') and l.text = c.output #>> '{}';

create or replace view traj.agents as
  select episode_id, agent_id, coalesce(name, agent_id) as agent, coalesce(role, name, agent_id collate "default") as role, parent_agent_id, depth, model, policy,
         case when starts_with(system_instructions, E'\uFFFE#') then troupe.text_shown('e/' || episode_id, system_instructions) else system_instructions end collate "default" as system_instructions,
         tools, params, unmapped, case when role is null then 'agent name' else 'given' end as role_source
  from facts.agents;

create or replace view traj.tool_calls as
  select episode_id, tool_call_id, call_id, tool_index as index, agent_id, name, type, arguments, arguments_raw, parse_error, status,
         case when position(E'"\uFFFE#' in output::text) > 0 then troupe.json_shown('e/' || episode_id, output) else output end as output, error,
         duration_ms, from_cache, truncated, turn, seq, called_at, returned_at, returned_flags as flags
  from facts.tool_calls;

create or replace view traj.messages as
  select c.episode_id, c.call_id || '#' || i.place as message_id, 'input' as kind, c.call_id, i.place,
         i.message ->> 'name' as sender, i.message ->> 'role' as role,
         case json_typeof(i.message -> 'content')
           when 'string' then i.message ->> 'content'
           when 'array' then (
             select string_agg(p.part ->> 'content', E'\n' order by p.n) from json_array_elements(i.message -> 'content') with ordinality as p (part, n)
             where p.part ->> 'type' = 'text' and json_typeof(p.part -> 'content') = 'string')
         end as text,
         case
           when o.others is not null
             then ('{"parts":' || case when json_typeof(i.message -> 'content') = 'array' then (i.message -> 'content')::text else 'null' end || o.others || '}')::json
           when json_typeof(i.message -> 'content') = 'array' then i.message -> 'content'
         end as content,
         null::text as channel, coalesce(c.requested_turn, c.completed_turn) as turn, c.requested_seq as seq, c.requested_at as at
  from facts.calls c
  cross join lateral troupe.messages_of('e/' || c.episode_id, c.context) i
  cross join lateral (
    select string_agg(',' || to_json(m.key)::text || ':' || m.value::text, '' order by m.n) as others
    from json_each(i.message) with ordinality as m (key, value, n) where m.key not in ('role', 'content', 'name')
  ) o
  union all
  select m.episode_id, m.message_id, 'sent', m.call_id, null, m.sender, m.role,
         case when starts_with(m.text, E'\uFFFE#') then troupe.text_shown('e/' || m.episode_id, m.text) else m.text end collate "default", m.content, m.channel, m.turn, m.seq, m.sent_at
  from facts.messages m;
