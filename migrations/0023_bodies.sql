--! bodies: what events of one key repeat lies once
-- An event names the context of a call and its long texts; ingest/log/split.ts cuts them out and says how. The table of the events is
-- stored_events from here on, and troupe.events shows every event whole.
alter table troupe.events rename to stored_events;
alter index troupe.events_pkey rename to stored_events_pkey;
alter table troupe.stored_events rename constraint events_place to stored_events_place;

-- A context is a chain of messages, a long text of a span a chain of pieces: previous is what comes before. hash is of both.
create table troupe.bodies (
  hash     uuid not null,
  previous uuid,
  key      text collate "C" not null,
  body     text not null,
  primary key (key, hash)
);

create function troupe.no_body(of_key text, wanted uuid) returns text language plpgsql stable as $$
begin
  raise exception 'The body % that an event of % names is not in troupe.bodies.', wanted, of_key
    using errcode = 'data_corrupted', hint = 'Restore the database from a backup.';
end $$;

-- From the last link of a chain to the first; place counts back from 0.
create function troupe.chain(of_key text, last uuid) returns table (place integer, hash uuid, body text)
  language sql stable rows 10 set enable_seqscan = off as $$
  with recursive links as (
    select 0 as place, last as hash, b.previous, b.body
    from (select) one left join lateral (select * from troupe.bodies b where b.key = of_key and b.hash = last offset 0) b on true
    union all
    select l.place - 1, l.previous, b.previous, b.body
    from links l left join lateral (select * from troupe.bodies b where b.key = of_key and b.hash = l.previous offset 0) b on true
    where l.previous is not null
  )
  select l.place, l.hash, coalesce(l.body, troupe.no_body(of_key, l.hash)) from links l
$$;

create function troupe.text_named(of_key text, name uuid) returns text language plpgsql stable set enable_seqscan = off as $$
declare
  link record;
begin
  select b.previous, b.body into link from troupe.bodies b where b.key = of_key and b.hash = name;
  if link.body is not null and link.previous is null then return link.body; end if;
  return (select string_agg(c.body, '' order by c.place) from troupe.chain(of_key, name) c);
end $$;

-- JSON text with every long text in its place. A name is 36 characters and a quotation mark.
create function troupe.with_texts(of_key text, said text) returns text language sql stable as $$
  select case when position(E'"\uFFFE#' in said) = 0 then said else (
    select string_agg(case when n = 1 then part else to_json(troupe.text_named(of_key, left(part, 36)::uuid))::text || substr(part, 38) end, '' order by n)
    from string_to_table(said, E'"\uFFFE#') with ordinality as p (part, n)
  ) end
$$;

-- The messages of a context in their order, from place 0. Views show it to readers who may see nothing else of this schema.
create function troupe.messages_of(of_key text, context uuid) returns table (place integer, hash uuid, message json)
  language sql stable rows 10 security definer set search_path = pg_catalog as $$
  select (row_number() over (order by c.place) - 1)::integer, c.hash, troupe.with_texts(of_key, c.body)::json
  from troupe.chain(of_key, context) c
  where context <> '00000000-0000-0000-0000-000000000000'
  order by c.place
$$;

-- Every message of these contexts once.
create function troupe.messages_read(of_key text, contexts uuid[]) returns table (hash uuid, message json)
  language sql stable rows 20 set enable_seqscan = off as $$
  with recursive reached as (
    select distinct c.hash from unnest(contexts) as c (hash)
    where c.hash is not null and c.hash <> '00000000-0000-0000-0000-000000000000'
    union
    select b.previous from reached r
    cross join lateral (select * from troupe.bodies b where b.key = of_key and b.hash = r.hash offset 0) b where b.previous is not null
  )
  select r.hash, troupe.with_texts(of_key, coalesce(b.body, troupe.no_body(of_key, r.hash)))::json
  from reached r left join lateral (select * from troupe.bodies b where b.key = of_key and b.hash = r.hash offset 0) b on true
$$;

-- The data of an event as it came.
create function troupe.whole(of_key text, data json) returns json
  language plpgsql stable security definer set search_path = pg_catalog as $$
declare
  said text := data::text;
  at integer;
begin
  if position(E'"\uFFFE' in said) = 0 then return data; end if;
  at := position(E'"\uFFFE@' in said);
  if at > 0 then
    said := left(said, at - 1) || '[' || (
      select string_agg(c.body, ',' order by c.place) from troupe.chain(of_key, substr(said, at + 3, 36)::uuid) c
    ) || ']' || substr(said, at + 40);
  end if;
  return troupe.with_texts(of_key, said)::json;
end $$;

create view troupe.events as
  select key, source, id, name, time, troupe.whole(key, data) as data, digest, partition, position, recorded_at, log
  from troupe.stored_events;

create or replace view traj.events as
  select e.key, e.source, e.id, 'troupe.' || e.name || '.v1' as type, e.time, e.data, e.partition, e.position, e.recorded_at, l.label as log
  from troupe.events e join troupe.logs l using (log);

alter table facts.calls add column context uuid;

-- What is stored is cut as new events are: the functions do in SQL what split.ts does.
create function troupe.keep_body(of_key text, before uuid, mark text, said text) returns uuid language plpgsql as $$
declare
  made uuid := substr(encode(sha256(convert_to(coalesce(before::text, '') || E'\n\uFFFE' || mark || said, 'UTF8')), 'hex'), 1, 32)::uuid;
begin
  insert into troupe.bodies (key, hash, previous, body) values (of_key, made, before, said) on conflict do nothing;
  return made;
end $$;

create function troupe.cut(of_key text, pieces boolean, value json) returns text language plpgsql as $$
declare
  said text := value::text;
  kind text;
  last uuid;
begin
  if octet_length(said) <= 512 then return said; end if;
  kind := json_typeof(value);
  if kind = 'object' then
    return '{' || (select string_agg(to_json(m.key)::text || ':' || troupe.cut(of_key, pieces, m.value), ',' order by m.n)
                   from json_each(value) with ordinality as m (key, value, n)) || '}';
  elsif kind = 'array' then
    return '[' || (select string_agg(troupe.cut(of_key, pieces, m.value), ',' order by m.n)
                   from json_array_elements(value) with ordinality as m (value, n)) || ']';
  elsif kind <> 'string' then
    return said;
  end if;
  said := value #>> '{}';
  if char_length(said) <= 512 then return value::text; end if;
  if pieces and char_length(said) > 4096 then
    for i in 0 .. (char_length(said) - 1) / 2048 loop
      last := troupe.keep_body(of_key, last, '#', substr(said, i * 2048 + 1, 2048));
    end loop;
  else
    last := troupe.keep_body(of_key, null, '#', said);
  end if;
  return E'"\uFFFE#' || last::text || '"';
end $$;

-- The context of messages that were cut.
create function troupe.keep_context(of_key text, messages text[]) returns uuid language plpgsql as $$
declare
  message text;
  last uuid;
begin
  foreach message in array messages loop
    last := troupe.keep_body(of_key, last, '@', message);
  end loop;
  return coalesce(last, '00000000-0000-0000-0000-000000000000');
end $$;

do $$
declare
  one record;
  cuts text[];
begin
  -- A body in the tables lost whether its message named no name or content, or null: the hash says which.
  create temp table told on commit drop as
    select b.episode_id, b.hash, m.text
    from facts.message_bodies b
    cross join lateral (select case when json_typeof(b.content) = 'object' then b.content -> 'parts' else b.content end as parts) c
    cross join (values (false, false), (false, true), (true, false), (true, true)) as g (named, said)
    cross join lateral (
      select '{' || string_agg(to_json(f.name)::text || ':' || f.value, ',' order by f.name collate "C") || '}' as text
      from (
        select 'role' as name, to_json(b.role)::text as value
        union all select 'content', coalesce(nullif(c.parts::text, 'null'), to_json(b.text)::text, 'null') where g.said or b.text is not null or coalesce(c.parts::text, 'null') <> 'null'
        union all select 'name', coalesce(to_json(b.name)::text, 'null') where g.named or b.name is not null
        union all select r.key, r.value::text from json_each(case when json_typeof(b.content) = 'object' then b.content end) r where r.key <> 'parts'
      ) f
    ) m
    where substr(encode(sha256(convert_to('[' || m.text || ']', 'UTF8')), 'hex'), 1, 32) = b.hash;
  create index on told (episode_id, hash);
  analyze told;

  for one in select c.episode_id, c.call_id, c.input from facts.calls c where c.input is not null loop
    select array_agg(troupe.cut('e/' || one.episode_id, false, t.text::json) order by i.n) into cuts
    from unnest(one.input) with ordinality as i (hash, n)
    cross join lateral (select text from told where told.episode_id = one.episode_id and told.hash = i.hash limit 1) t;
    if coalesce(cardinality(cuts), 0) <> cardinality(one.input) then
      raise exception 'The messages of the call % of the episode % are not what their hashes say.', one.call_id, one.episode_id
        using hint = 'Run troupe rebuild with the Troupe of before, and start this one again.';
    end if;
    update facts.calls set context = troupe.keep_context('e/' || one.episode_id, coalesce(cuts, '{}'))
    where episode_id = one.episode_id and call_id = one.call_id;
  end loop;

  for one in
    select key, source, id, name, data from troupe.stored_events where octet_length(data::text) > 512 or name = 'generation.requested'
  loop
    if one.name = 'generation.requested' and json_typeof(one.data -> 'input') = 'array' and json_array_length(one.data -> 'input') > 0 then
      select array_agg(troupe.cut(one.key, false, m.value) order by m.n) into cuts
      from json_array_elements(one.data -> 'input') with ordinality as m (value, n);
      one.data := ('{' || (
        select string_agg(to_json(m.key)::text || ':' ||
          case when m.key = 'input' then E'"\uFFFE@' || troupe.keep_context(one.key, cuts)::text || '"' else m.value::text end, ',' order by m.n)
        from json_each(one.data) with ordinality as m (key, value, n)) || '}')::json;
    end if;
    update troupe.stored_events set data = ('{' || (
      select string_agg(to_json(m.key)::text || ':' || troupe.cut(one.key, one.name = 'span.recorded' or m.key = 'unmapped', m.value), ',' order by m.n)
      from json_each(one.data) with ordinality as m (key, value, n)) || '}')::json
    where key = one.key and source = one.source and id = one.id;
  end loop;
  -- Spans stand in the log; what has no column names them.
  for one in
    select c.relname as name, a.attname as field from pg_class c join pg_attribute a on a.attrelid = c.oid
    where c.relnamespace = 'facts'::regnamespace and c.relkind = 'r' and a.attname like '%unmapped'
  loop
    execute format($sql$
      update facts.%1$I set %2$I = ('{' || (
        select string_agg(to_json(m.key)::text || ':' || case when m.key <> 'otlp' then m.value::text else '{' || coalesce((
          select string_agg(to_json(i.key)::text || ':{' || concat_ws(',',
            '"spanId":' || (i.value -> 'spanId')::text, '"traceId":' || (i.value -> 'traceId')::text) || '}', ',' order by i.key desc)
          from json_each(m.value) i where i.key in ('span', 'log') and json_typeof(i.value) = 'object'), '') || '}' end, ',' order by m.n)
        from json_each(%2$I) with ordinality as m (key, value, n)) || '}')::json
      where json_typeof(%2$I -> 'otlp') = 'object'$sql$, one.name, one.field);
  end loop;
end $$;

drop function troupe.keep_context, troupe.cut, troupe.keep_body;

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
  select m.episode_id, m.message_id, 'sent', m.call_id, null, m.sender, m.role, m.text, m.content, m.channel, m.turn, m.seq, m.sent_at
  from facts.messages m;

alter table facts.calls drop column input;
drop table facts.message_bodies;
