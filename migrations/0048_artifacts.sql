--! images and files in messages lie once as bytes, and traj.artifacts lists them
-- A body that ends in base64 of an image or a file keeps what stands before it; its bytes lie in troupe.blobs, once for the whole project.
-- ingest/log/base64.ts says which texts these are. Older code would take the name of an artifact for a text, and leave bytes when it erases.
create table troupe.blobs (
  sha256 bytea primary key,
  bytes  bytea not null
);
-- Images are compressed already.
alter table troupe.blobs alter column bytes set storage external;
alter table troupe.bodies add column blob bytea, add column media_type text;
create index bodies_of_artifacts on troupe.bodies (blob) where media_type is not null;
comment on column troupe.bodies.blob is 'SHA-256 of the bytes whose base64 follows the body; null where it has none, and where a media type is named but the base64 would not come back as it was.';

create function troupe.base64_of(wanted bytea) returns text language plpgsql stable as $$
declare
  found_bytes bytea;
begin
  select b.bytes into found_bytes from troupe.blobs b where b.sha256 = wanted;
  if not found then
    raise exception 'The bytes of the artifact % are not in troupe.blobs.', encode(wanted, 'hex')
      using errcode = 'data_corrupted', hint = 'Restore the database from a backup.';
  end if;
  return replace(encode(found_bytes, 'base64'), E'\n', '');
end $$;

create or replace function troupe.chain(of_key text, last uuid) returns table (place integer, hash uuid, body text)
  language sql stable rows 10 set enable_seqscan = off as $$
  with recursive links as (
    select 0 as place, last as hash, b.previous, b.body, b.blob
    from (select) one left join lateral (select * from troupe.bodies b where b.key = of_key and b.hash = last offset 0) b on true
    union all
    select l.place - 1, l.previous, b.previous, b.body, b.blob
    from links l left join lateral (select * from troupe.bodies b where b.key = of_key and b.hash = l.previous offset 0) b on true
    where l.previous is not null
  )
  select l.place, l.hash, case when l.blob is null then coalesce(l.body, troupe.no_body(of_key, l.hash)) else l.body || troupe.base64_of(l.blob) end from links l
$$;

create or replace function troupe.text_named(of_key text, name uuid) returns text language plpgsql stable set enable_seqscan = off as $$
declare
  link record;
begin
  select b.previous, b.body, b.blob into link from troupe.bodies b where b.key = of_key and b.hash = name;
  if link.body is not null and link.previous is null then
    if link.blob is null then return link.body; end if;
    return link.body || troupe.base64_of(link.blob);
  end if;
  return (select string_agg(c.body, '' order by c.place) from troupe.chain(of_key, name) c);
end $$;

-- The JSON of a text; in the place of one that is an artifact an object names it.
create function troupe.artifact_or_text(of_key text, name uuid) returns text language plpgsql stable set enable_seqscan = off as $$
declare
  link record;
begin
  select b.previous, b.blob, b.media_type into link from troupe.bodies b where b.key = of_key and b.hash = name;
  if link.blob is null or link.previous is not null then return to_json(troupe.text_named(of_key, name))::text; end if;
  return json_build_object('artifact_id', encode(link.blob, 'hex'), 'media_type', link.media_type,
    -- Bytes that are missing are an error here too.
    'size', coalesce((select octet_length(b.bytes) from troupe.blobs b where b.sha256 = link.blob), length(troupe.base64_of(link.blob))))::text;
end $$;

-- As troupe.with_texts, with artifacts by name.
create function troupe.with_artifacts(of_key text, said text) returns text language sql stable as $$
  select case when position(E'"\uFFFE#' in said) = 0 then replace(said, E'"\uFFFE."', '"' || substr(of_key, 3) || '"') else (
    select string_agg(case when n = 1 then part else troupe.artifact_or_text(of_key, left(part, 36)::uuid) || substr(part, 38) end, '' order by n)
    from string_to_table(replace(said, E'"\uFFFE."', '"' || substr(of_key, 3) || '"'), E'"\uFFFE#') with ordinality as p (part, n)
  ) end
$$;

-- What views show: artifacts by name.
create function troupe.json_short(of_key text, said json) returns json
  language sql stable security definer set search_path = pg_catalog as $$
  select troupe.with_artifacts(of_key, said::text)::json
$$;
create function troupe.messages_shown(of_key text, context uuid) returns table (place integer, hash uuid, message json)
  language sql stable rows 10 security definer set search_path = pg_catalog as $$
  select (row_number() over (order by c.place) - 1)::integer, c.hash, troupe.with_artifacts(of_key, c.body)::json
  from troupe.chain(of_key, context) c
  where context <> '00000000-0000-0000-0000-000000000000'
  order by c.place
$$;

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
         null::text as channel, coalesce(c.requested_turn, c.completed_turn) as turn, c.requested_seq as seq, c.requested_at as at,
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
         s.content, m.channel, m.turn, m.seq, m.sent_at,
         array(select a[1] from regexp_matches(s.content::text, '"artifact_id" : "([0-9a-f]{64})"', 'g') as a)
  from facts.messages m
  cross join lateral (
    select case when position(E'"\uFFFE#' in m.content::text) > 0 then troupe.json_short('e/' || m.episode_id, m.content) else m.content end as content
  ) s;
comment on column traj.messages.artifacts is 'the images and files that it shows, as in traj.artifacts';

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
         troupe.untrainable(c.copied, c.error, s.token_ids, c.prompt_token_ids, s.logprobs, c.checkpoint_id, c.model_version, c.params) is null as trainable,
         troupe.untrainable(c.copied, c.error, s.token_ids, c.prompt_token_ids, s.logprobs, c.checkpoint_id, c.model_version, c.params) as untrainable
  from facts.steps s
  join facts.calls c using (episode_id, call_id)
  left join facts.episodes e using (episode_id)
  left join facts.agents a on a.episode_id = s.episode_id and a.agent_id = coalesce(c.completed_agent_id, c.requested_agent_id);

create or replace view traj.tool_calls as
  select episode_id, tool_call_id, call_id, tool_index as index, agent_id, name, type, arguments, arguments_raw, parse_error, status,
         case when position(E'"\uFFFE#' in output::text) > 0 then troupe.json_short('e/' || episode_id, output) else output end as output, error,
         duration_ms, from_cache, truncated, turn, seq, called_at, returned_at, returned_flags as flags, parent_tool_call_id
  from facts.tool_calls;

create or replace view traj.observations as
  select o.episode_id, o.kind,
         case when position(E'"\uFFFE#' in o.content::text) > 0 then troupe.json_short('e/' || o.episode_id, o.content) else o.content end as content,
         case when position(E'"\uFFFE#' in o.state::text) > 0 then troupe.json_short('e/' || o.episode_id, o.state) else o.state end as state,
         o.call_id, o.turn, o.seq, o.occurred_at as at,
         case when position(E'"\uFFFE#' in o.unmapped::text) > 0 then troupe.json_short('e/' || o.episode_id, o.unmapped) else o.unmapped end as unmapped,
         o.event_source, o.event_id
  from facts.observations o;

create view traj.artifacts as
  select a.episode_id, a.artifact_id, a.role, a.media_type, a.size, a.name, a.uri, null::json as flags, a.key
  from facts.artifacts a
  union all
  select case when starts_with(b.key, 'e/') then substr(b.key, 3) end, encode(b.blob, 'hex') collate "C",
         case when starts_with(b.media_type, 'image/') then 'image' else 'file' end, b.media_type,
         (select octet_length(o.bytes) from troupe.blobs o where o.sha256 = b.blob), null, null,
         case when b.blob is null then '["unreadable_blob"]'::json end, b.key
  from (select distinct key, blob, media_type, case when blob is null then hash end as unread from troupe.bodies where media_type is not null) b;
comment on view traj.artifacts is 'One row for each file that an event attached, and for each image or file in the messages of an episode or task.';
comment on column traj.artifacts.artifact_id is 'of an image or file in messages the SHA-256 of its bytes; null where its base64 would not come back as it was';
comment on column traj.artifacts.role is 'patch, code, file, image, log, raw-record, checkpoint or dataset';
comment on column traj.artifacts.size is 'bytes';
comment on column traj.artifacts.flags is 'unreadable_blob: base64 that would not come back as it was; it stays in its message';

-- What used an erasure lies with it: a table of its own is four relations.
alter table troupe.erasures add column used json not null default '[]';
update troupe.erasures e set used = (
  select coalesce(json_agg(json_build_object('kind', u.kind, 'id', u.id, 'removed', u.removed) order by u.kind, u.id), '[]')
  from troupe.erased_use u where u.erasure_id = e.erasure_id);
create or replace view traj.erasures as
  select e.erasure_id, e.kind, e.reason, e.events, e.episodes, e.erased_at, u.kind as used_by, u.id collate "C" as used_by_id, u.removed
  from troupe.erasures e left join lateral json_to_recordset(e.used) as u (kind text, id text, removed boolean) on true;
drop table troupe.erased_use;
