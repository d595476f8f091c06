--! a long text that several episodes hold lies once; bodies are found by a hash
-- A system prompt and what a tool answered stood once for each episode, a tenth of a database of tau-bench. Their bytes lie in troupe.blobs
-- now, as those of images do, and go with the last key that names them. Older code would read an empty text. A text that begins as the JSON
-- of a message does stays where it is.
-- The index of key and hash held both whole, in pages that random hashes fill to three fifths: 115 bytes for a body of 400. Now a hash of the
-- two keeps bodies apart, and an index of keys finds those of an erasure.
insert into troupe.blobs (sha256, bytes)
  select distinct sha256(convert_to(body, 'UTF8')), convert_to(body, 'UTF8') from troupe.bodies
  where previous is null and media_type is null and left(body, 1) not in ('{', '[', '"') and char_length(body) > 768
  on conflict do nothing;
update troupe.bodies set body = '', blob = sha256(convert_to(body, 'UTF8'))
  where previous is null and media_type is null and left(body, 1) not in ('{', '[', '"') and char_length(body) > 768;
-- Bytes that are compressed already stay as they are.
alter table troupe.blobs alter column bytes set storage extended;
alter table troupe.bodies drop constraint bodies_pkey,
  alter column key set not null, alter column hash set not null,
  -- A hash has 36 characters, so the two are joined in one way only.
  add constraint bodies_once exclude using hash ((key || hash::text) with =);
create index bodies_of_key on troupe.bodies (key);
create index bodies_of_texts on troupe.bodies (blob) where media_type is null and blob is not null;
comment on column troupe.bodies.blob is 'SHA-256 of the bytes that follow the body, of a text where no media type is named, else in base64; null where nothing follows, and where a media type is named but the base64 would not come back as it was.';

drop function troupe.base64_of;
create function troupe.blob_text(wanted bytea, media_type text) returns text language plpgsql stable as $$
declare
  found_bytes bytea;
begin
  select b.bytes into found_bytes from troupe.blobs b where b.sha256 = wanted;
  if not found then
    raise exception 'The bytes of the % % are not in troupe.blobs.', case when media_type is null then 'text' else 'artifact' end, encode(wanted, 'hex')
      using errcode = 'data_corrupted', hint = 'Restore the database from a backup.';
  end if;
  return case when media_type is null then convert_from(found_bytes, 'UTF8') else replace(encode(found_bytes, 'base64'), E'\n', '') end;
end $$;

create or replace function troupe.chain(of_key text, last uuid) returns table (place integer, hash uuid, body text)
  language sql stable rows 10 set enable_seqscan = off as $$
  with recursive links as (
    select 0 as place, last as hash, b.previous, b.body, b.blob, b.media_type
    from (select) one left join lateral (select * from troupe.bodies b where b.key || b.hash::text = of_key || last::text offset 0) b on true
    union all
    select l.place - 1, l.previous, b.previous, b.body, b.blob, b.media_type
    from links l left join lateral (select * from troupe.bodies b where b.key || b.hash::text = of_key || l.previous::text offset 0) b on true
    where l.previous is not null
  )
  select l.place, l.hash, case when l.blob is null then coalesce(l.body, troupe.no_body(of_key, l.hash)) else l.body || troupe.blob_text(l.blob, l.media_type) end
  from links l
$$;

create or replace function troupe.text_named(of_key text, name uuid) returns text language plpgsql stable set enable_seqscan = off as $$
declare
  link record;
begin
  select b.previous, b.body, b.blob, b.media_type into link from troupe.bodies b where b.key || b.hash::text = of_key || name::text;
  if link.body is not null and link.previous is null then
    if link.blob is null then return link.body; end if;
    return link.body || troupe.blob_text(link.blob, link.media_type);
  end if;
  return (select string_agg(c.body, '' order by c.place) from troupe.chain(of_key, name) c);
end $$;

create or replace function troupe.artifact_or_text(of_key text, name uuid) returns text language plpgsql stable set enable_seqscan = off as $$
declare
  link record;
begin
  select b.previous, b.blob, b.media_type into link from troupe.bodies b where b.key || b.hash::text = of_key || name::text;
  if link.blob is null or link.media_type is null or link.previous is not null then return to_json(troupe.text_named(of_key, name))::text; end if;
  return json_build_object('artifact_id', encode(link.blob, 'hex'), 'media_type', link.media_type,
    -- Bytes that are missing are an error here too.
    'size', coalesce((select octet_length(b.bytes) from troupe.blobs b where b.sha256 = link.blob), length(troupe.blob_text(link.blob, link.media_type))))::text;
end $$;

create or replace function troupe.messages_read(of_key text, contexts uuid[]) returns table (hash uuid, message json)
  language sql stable rows 20 set enable_seqscan = off as $$
  with recursive reached as (
    select distinct c.hash from unnest(contexts) as c (hash)
    where c.hash is not null and c.hash <> '00000000-0000-0000-0000-000000000000'
    union
    select b.previous from reached r
    cross join lateral (select * from troupe.bodies b where b.key || b.hash::text = of_key || r.hash::text offset 0) b where b.previous is not null
  )
  select r.hash, troupe.with_texts(of_key, coalesce(b.body, troupe.no_body(of_key, r.hash)))::json
  from reached r left join lateral (select * from troupe.bodies b where b.key || b.hash::text = of_key || r.hash::text offset 0) b on true
$$;

create or replace function troupe.whole(of_key text, data json) returns json
  language plpgsql stable security definer set search_path = pg_catalog set enable_seqscan = off as $$
declare
  said text := data::text;
  at integer := position(E'"\uFFFE@' in said);
  link uuid;
  before uuid;
  body text;
  messages text[];
begin
  if at > 0 then
    link := substr(said, at + 3, 36)::uuid;
    loop
      select b.previous, b.body into before, body from troupe.bodies b where b.key || b.hash::text = of_key || link::text;
      if not found then
        before := null;
        body := troupe.no_body(of_key, link);
      end if;
      messages := array_append(messages, body);
      exit when before is null;
      link := before;
    end loop;
    if cardinality(messages) > 1 then
      select string_agg(m.body, ',' order by m.place desc) into body from unnest(messages) with ordinality as m (body, place);
    end if;
    said := left(said, at - 1) || '[' || body || ']' || substr(said, at + 40);
  end if;
  return troupe.with_texts(of_key, said)::json;
end $$;

-- An empty project has at most 250 relations: a table of short names needs no place for long values.
alter table troupe.positions alter column projection type varchar(64), alter column last_digest type varchar(64);

-- The planner is told nothing of columns by which nothing is filtered, joined or sorted: texts, digests and versions. Their samples were
-- 0.2 MB of an import of 2.8. A copy of a table has none of this, so a rebuild asks for it again.
create function troupe.without_statistics(of_schema name) returns void language plpgsql as $$
declare
  at record;
begin
  for at in
    select a.attrelid::regclass as relation, quote_ident(a.attname) as name from pg_attribute a join pg_class c on c.oid = a.attrelid
    where c.relnamespace = of_schema::regnamespace and c.relkind = 'r' and a.attnum > 0 and not a.attisdropped and (
      a.atttypid in ('json'::regtype, 'integer[]'::regtype, 'real[]'::regtype)
      or a.attname ~ 'version$' and a.atttypid = 'text'::regtype
      or a.attname in ('body', 'bytes', 'digest', 'sha256', 'raw_artifact_id', 'text', 'query', 'answer', 'arguments_raw', 'error', 'previous'))
  loop
    execute format('alter table %s alter column %s set statistics 0', at.relation, at.name);
  end loop;
end $$;
select troupe.without_statistics('troupe'), troupe.without_statistics('facts');
