--! the log: events, their texts and bytes, positions, and what the processes keep
create schema if not exists troupe;

-- The archive of record. Identity is (key, source, id); the key is what the event is about. (log, partition, position) is its place: `log`
-- is the embedded log, number 0, or one incarnation of a topic, whose partition and offset are the place.
-- An event names the context of a call and its long texts; ingest/log/split.ts cuts them out, and troupe.events shows every event whole.
create table troupe.stored_events (
  position     bigint not null,
  recorded_at  timestamptz not null default clock_timestamp(),
  time         timestamptz,
  partition    smallint not null,
  log          smallint not null,
  key          text collate "C" not null,
  source       text collate "C" not null,
  id           text collate "C" not null,
  name         text not null,
  -- SHA-256 in 32 bytes; of an erased event the text that says so.
  digest       bytea not null,
  data         json not null,
  -- Events are kept in the version in which they were sent.
  type_version smallint not null default 1,
  constraint stored_events_place unique (log, partition, position),
  -- An index of the three names would repeat two fifths of an event; a hash of them is enough to find one, and this compares them whole.
  -- U+FFFE escapes what PostgreSQL cannot hold and is followed by hexadecimal digits there, so three texts are joined in one way only.
  constraint stored_events_identity exclude using hash ((key || E'\uFFFE|' || source || E'\uFFFE|' || id) with =)
);
create index stored_events_key on troupe.stored_events (key);
-- Amendments, events with redactions and those that name a subject are few: one index of them alone answers for one key, one episode and all.
create index events_key_idx on troupe.stored_events (key, name, (case when key like 'e/%' then substr(key, 3) end))
  where name = 'record.amended' or strpos(data::text, '"redactions":{') > 0 or strpos(data::text, '"subject"') > 0;

-- What events of one key repeat lies once. A context is a chain of messages, a long text of a span a chain of pieces: previous is what
-- comes before. hash is of both.
create table troupe.bodies (
  hash       uuid not null,
  previous   uuid,
  key        text collate "C" not null,
  body       text not null,
  blob       bytea,
  media_type text,
  -- An index of the two took 115 bytes for a body of 400. A hash has 36 characters, so the two are joined in one way only.
  constraint bodies_once exclude using hash ((key || hash::text) with =)
);
comment on column troupe.bodies.blob is 'SHA-256 of the bytes that follow the body, of a text where no media type is named, else in base64; null where nothing follows, and where a media type is named but the base64 would not come back as it was.';
create index bodies_of_key on troupe.bodies (key);
create index bodies_of_artifacts on troupe.bodies (blob) where media_type is not null;
create index bodies_of_texts on troupe.bodies (blob) where media_type is null and blob is not null;

-- Bytes of images and files, and texts that several keys hold, once for the whole project.
create table troupe.blobs (
  sha256 bytea primary key,
  bytes  bytea not null
);

-- The embedded log gives positions under the lock of the partition's row: they commit in order and without gaps.
create table troupe.log_partitions (
  partition     smallint primary key,
  next_position bigint not null default 0
);
insert into troupe.log_partitions (partition) select generate_series(0, 15);

-- A topic as it was when it was first read. Keys are spread over its partitions, so their number must not change under way. One that was
-- deleted and made anew is another log under the same name: the label tells them apart wherever a place is shown.
create table troupe.logs (
  log         smallint primary key,
  name        text not null,
  generation  integer not null default 0,
  cluster_id  text,
  partitions  integer not null,
  first_read  timestamptz not null default clock_timestamp(),
  replaced_at timestamptz,
  label       text not null generated always as (name || case when generation > 0 then '#' || generation::text else '' end) stored,
  unique (name, generation)
);
insert into troupe.logs (log, name, partitions) select 0, 'embedded', count(*) from troupe.log_partitions;

-- How far each projection has read each partition: the next position it will read. Moved in the transaction of the rows. Of a topic, `began`
-- is the offset that was read first, and the last record applied is kept by offset and digest, so that one that was cut or made anew is known.
create table troupe.positions (
  projection  varchar(64) not null,
  partition   smallint not null,
  position    bigint not null default 0,
  applied     bigint not null default 0,
  duplicates  bigint not null default 0,
  dead        bigint not null default 0,
  began       bigint,
  last_offset bigint,
  last_digest varchar(64),
  log         smallint not null references troupe.logs,
  primary key (projection, log, partition)
);
insert into troupe.positions (projection, log, partition) select 'facts', 0, partition from troupe.log_partitions;

-- Which projector works on which partition of the embedded log. It only divides the work: what keeps a batch whole is the lock of its
-- positions, so a lease that ends too soon costs nothing but a look.
create table troupe.partition_leases (
  partition    smallint primary key,
  owner        uuid,
  leased_until timestamptz
);
insert into troupe.partition_leases (partition) select partition from troupe.log_partitions;

-- What a batch changed that matters to keys of other partitions: applied after its commit, under the locks of those.
create table troupe.pending_changes (what json not null);

-- What each episode looked like when it was last judged: arrival state, not a fact.
create table troupe.judged_revisions (
  episode_id text collate "C" not null,
  judge_set  text not null,
  revision   bigint not null,
  primary key (episode_id, judge_set)
);

-- Conservation at the endpoint: received = acknowledged + duplicates + rejected.
-- Here and in troupe.unneeded_bodies names are short by their types, which saves the table and the index for long values.
create table troupe.ingest_counters (
  endpoint         varchar(64) primary key,
  received     bigint not null default 0,
  acknowledged bigint not null default 0,
  duplicates   bigint not null default 0,
  rejected     bigint not null default 0
);

create table troupe.dead_letters (
  dead_letter_id bigint generated always as identity primary key,
  endpoint        text not null,
  place       text,
  raw         bytea not null,
  code        text not null,
  field       text not null,
  expected    text not null,
  got         text not null,
  digest      text not null,
  attempts    integer not null default 1,
  first_at    timestamptz not null default clock_timestamp(),
  last_at     timestamptz not null default clock_timestamp(),
  replayed_at timestamptz,
  unique (digest, code, field)
);

-- Processes that run now: where the sampling process of a policy listens, who projects, who judges.
create table troupe.processes (
  process_id   text primary key,
  role         text not null,
  policy       text,
  address      text,
  pid          integer not null,
  started_at   timestamptz not null default clock_timestamp(),
  heartbeat_at timestamptz not null default clock_timestamp(),
  -- What a sampling process has loaded: [{"name", "checkpoint"}]; null for other roles.
  models       jsonb
);

create table troupe.api_keys (
  lookup     text collate "C" primary key,
  name       text not null,
  sha256     bytea not null check (octet_length(sha256) = 32),
  scopes     text[] not null check (cardinality(scopes) > 0),
  created_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz,
  revoked_at timestamptz
);
comment on table troupe.api_keys is 'API keys by the part that finds them, with the SHA-256 of the whole. A row is never removed: while there is one, every route needs a key.';

-- Work to do: a queue may change, what happened is an event. An attempt of a rollout is a row too: its job_id is the episode that it plays,
-- its kind is attempt/<runner>. Besides its lease it has a deadline, both by the clock of this server.
create table troupe.job_queue (
  job_id       text collate "C" primary key,
  kind         text not null,
  spec         json not null,
  state        text not null default 'waiting' check (state in ('waiting', 'running', 'finished')),
  worker       text,
  token        bigint not null default 0,
  attempts     integer not null default 0,
  leased_until timestamptz,
  requested_at timestamptz not null default clock_timestamp(),
  outcome      text check (outcome in ('done', 'failed', 'cancelled')),
  result       json,
  error        json,
  -- The job that has to finish before it is given out again.
  waits_for    text collate "C",
  started_at   timestamptz,
  deadline_at  timestamptz
);
create index on troupe.job_queue (kind, requested_at) where state <> 'finished';

-- What was erased. Neither names nor text: the keys are what a later import is refused by. `used` lists the datasets and checkpoints.
create table troupe.erasures (
  erasure_id text collate "C" primary key,
  kind       text not null check (kind in ('subject', 'episode')),
  reason     text,
  events     integer not null,
  episodes   integer not null,
  erased_at  timestamptz not null,
  used       json not null default '[]'
);
create table troupe.erased (
  key        text collate "C" primary key,
  erasure_id text collate "C" not null
);

-- A folder of Parquet files. writing: its events are still in the log, so what lies there is thrown away when a prune is begun again.
-- kept: it holds what the log no longer has. restored: the log has it again. replaced: another folder took its place; its files must go.
create table troupe.archives (
  archive_id text collate "C" primary key,
  uri        text not null,
  draft      text,
  state      text not null check (state in ('writing', 'kept', 'restored', 'replaced')),
  sha256     text,
  episodes   integer not null default 0,
  events     bigint not null default 0,
  bytes      bigint not null default 0,
  written_at timestamptz not null
);

-- What a later event is refused by. revision and judged bring back how far the judge had looked; erased: its text was gone before.
-- Archives are restored whole and seldom, so what lies in one is found without an index.
create table troupe.pruned (
  key        text collate "C" primary key,
  archive_id text collate "C" not null references troupe.archives,
  group_id   text collate "C" not null,
  events     integer not null,
  first_at   timestamptz,
  last_at    timestamptz,
  revision   bigint,
  judged     json,
  erased     boolean not null default false,
  pruned_at  timestamptz not null,
  -- Whether the tables hold the rows that were made of its events: each rebuild reads them again, until a prune or a restore.
  in_tables  boolean not null default false
);

-- Positions of the log that no event has any more, because it was pruned.
create table troupe.pruned_positions (
  partition smallint not null,
  events    bigint not null default 0,
  log       smallint not null,
  primary key (log, partition)
);

-- Bodies of artifacts that pruned events named; those that nobody else names are removed after the commit.
create table troupe.unneeded_bodies (sha256 varchar(64) collate "C" primary key);

-- The functions below put events together again. A name is 36 characters after a mark, as ingest/log/split.ts writes it.

create function troupe.no_body(of_key text, wanted uuid) returns text language plpgsql stable as $$
begin
  raise exception 'The body % that an event of % names is not in troupe.bodies.', wanted, of_key
    using errcode = 'data_corrupted', hint = 'Restore the database from a backup.';
end $$;

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

-- From the last link of a chain to the first; place counts back from 0.
create function troupe.chain(of_key text, last uuid) returns table (place integer, hash uuid, body text)
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

create function troupe.text_named(of_key text, name uuid) returns text language plpgsql stable set enable_seqscan = off as $$
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

-- JSON text with the id of the key and every long text in its place.
create function troupe.with_texts(of_key text, said text) returns text language sql stable as $$
  select case when position(E'"\uFFFE#' in said) = 0 then replace(said, E'"\uFFFE."', '"' || substr(of_key, 3) || '"') else (
    select string_agg(case when n = 1 then part else to_json(troupe.text_named(of_key, left(part, 36)::uuid))::text || substr(part, 38) end, '' order by n)
    from string_to_table(replace(said, E'"\uFFFE."', '"' || substr(of_key, 3) || '"'), E'"\uFFFE#') with ordinality as p (part, n)
  ) end
$$;

-- The JSON of a text; in the place of one that is an artifact an object names it.
create function troupe.artifact_or_text(of_key text, name uuid) returns text language plpgsql stable set enable_seqscan = off as $$
declare
  link record;
begin
  select b.previous, b.blob, b.media_type into link from troupe.bodies b where b.key || b.hash::text = of_key || name::text;
  if link.blob is null or link.media_type is null or link.previous is not null then return to_json(troupe.text_named(of_key, name))::text; end if;
  return json_build_object('artifact_id', encode(link.blob, 'hex'), 'media_type', link.media_type,
    -- Bytes that are missing are an error here too.
    'size', coalesce((select octet_length(b.bytes) from troupe.blobs b where b.sha256 = link.blob), length(troupe.blob_text(link.blob, link.media_type))))::text;
end $$;

-- As troupe.with_texts, with artifacts by name.
create function troupe.with_artifacts(of_key text, said text) returns text language sql stable as $$
  select case when position(E'"\uFFFE#' in said) = 0 then replace(said, E'"\uFFFE."', '"' || substr(of_key, 3) || '"') else (
    select string_agg(case when n = 1 then part else troupe.artifact_or_text(of_key, left(part, 36)::uuid) || substr(part, 38) end, '' order by n)
    from string_to_table(replace(said, E'"\uFFFE."', '"' || substr(of_key, 3) || '"'), E'"\uFFFE#') with ordinality as p (part, n)
  ) end
$$;

-- The data of an event as it came.
create function troupe.whole(of_key text, data json) returns json
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

-- The messages of a context in their order, from place 0.
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
    cross join lateral (select * from troupe.bodies b where b.key || b.hash::text = of_key || r.hash::text offset 0) b where b.previous is not null
  )
  select r.hash, troupe.with_texts(of_key, coalesce(b.body, troupe.no_body(of_key, r.hash)))::json
  from reached r left join lateral (select * from troupe.bodies b where b.key || b.hash::text = of_key || r.hash::text offset 0) b on true
$$;

-- What views show of messages, texts and JSON, to readers who may see nothing else of this schema; artifacts by name but for json_shown.
create function troupe.messages_shown(of_key text, context uuid) returns table (place integer, hash uuid, message json)
  language sql stable rows 10 security definer set search_path = pg_catalog as $$
  select (row_number() over (order by c.place) - 1)::integer, c.hash, troupe.with_artifacts(of_key, c.body)::json
  from troupe.chain(of_key, context) c
  where context <> '00000000-0000-0000-0000-000000000000'
  order by c.place
$$;
create function troupe.text_shown(of_key text, said text) returns text
  language sql stable security definer set search_path = pg_catalog as $$
  select case when starts_with(said, E'\uFFFE#') then troupe.text_named(of_key, substr(said, 3)::uuid) else said end
$$;
create function troupe.json_shown(of_key text, said json) returns json
  language sql stable security definer set search_path = pg_catalog as $$
  select troupe.with_texts(of_key, said::text)::json
$$;
create function troupe.json_short(of_key text, said json) returns json
  language sql stable security definer set search_path = pg_catalog as $$
  select troupe.with_artifacts(of_key, said::text)::json
$$;

-- Facts name files by the paths that they had when they were recorded, and facts never change. A home that was moved replaces this function,
-- which costs no table: `former` are the folders that the home had before, `root` is the one that it has now.
create function troupe.moved_home() returns json language sql immutable parallel safe
begin atomic
  select '{"former": [], "root": null}'::json;
end;

-- Where a path of a fact is now. What lies outside the home stays as it is.
create function troupe.path_here(path text) returns text language sql immutable parallel safe
begin atomic
  select coalesce(
    (select (troupe.moved_home() ->> 'root') || substr(path, length(former) + 1)
     from json_array_elements_text(troupe.moved_home() -> 'former') former
     where starts_with(path, former || '/')
     order by length(former) desc limit 1),
    path);
end;

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
select troupe.without_statistics('troupe');
