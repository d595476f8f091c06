--! events in fewer bytes: digests in binary, identities by hash, the id of the key by a mark
-- Two fifths of an event were names: its index of (key, source, id) repeated all three, its digest was hexadecimal, and its data said
-- once more what its key says. A hash of the three is enough to find an event, and the constraint compares them whole.
create table troupe.smaller_events (
  position    bigint not null,
  recorded_at timestamptz not null default clock_timestamp(),
  time        timestamptz,
  partition   smallint not null,
  log         smallint not null,
  key         text collate "C" not null,
  source      text collate "C" not null,
  id          text collate "C" not null,
  name        text not null,
  -- SHA-256 in 32 bytes; of an erased event the text that says so.
  digest      bytea not null,
  data        json not null
);
insert into troupe.smaller_events (position, recorded_at, time, partition, log, key, source, id, name, digest, data)
  select position, recorded_at, time, partition, log, key, source, id, name,
         case when digest ~ '^[0-9a-f]{64}$' then decode(digest, 'hex') else convert_to(digest, 'UTF8') end,
         -- The id of the key as ingest/log/split.ts marks it.
         case when substr(key, 3) ~ '^[ -~]{7,}$' and substr(key, 3) !~ '["\\]'
           then replace(data::text, '"' || substr(key, 3) || '"', E'"\uFFFE."')::json else data end
  from troupe.stored_events order by log, partition, position;

-- JSON text with the id of the key and every long text in its place. The name of a text is 36 characters and a quotation mark.
create or replace function troupe.with_texts(of_key text, said text) returns text language sql stable as $$
  select case when position(E'"\uFFFE#' in said) = 0 then replace(said, E'"\uFFFE."', '"' || substr(of_key, 3) || '"') else (
    select string_agg(case when n = 1 then part else to_json(troupe.text_named(of_key, left(part, 36)::uuid))::text || substr(part, 38) end, '' order by n)
    from string_to_table(replace(said, E'"\uFFFE."', '"' || substr(of_key, 3) || '"'), E'"\uFFFE#') with ordinality as p (part, n)
  ) end
$$;

create or replace view troupe.events as
  select key, source, id, name, time, troupe.whole(key, data) as data,
         case when length(digest) = 32 then encode(digest, 'hex') else convert_from(digest, 'UTF8') end collate "default" as digest,
         partition, position, recorded_at, log
  from troupe.smaller_events;
create or replace view traj.redactions as
  select e.key, case when e.key like 'e/%' then substr(e.key, 3) end as episode_id, e.source, e.id, e.name as event, r.key as rule,
         case when r.value ~ '^[0-9]{1,9}$' then r.value::integer end as count
  from troupe.smaller_events e
  cross join lateral json_each_text(case when json_typeof(e.data -> 'redactions') = 'object' then e.data -> 'redactions' else '{}' end) r
  where e.data::text like '%"redactions":{%';
drop table troupe.stored_events;
alter table troupe.smaller_events rename to stored_events;
alter table troupe.stored_events
  add constraint stored_events_place unique (log, partition, position),
  -- U+FFFE escapes what PostgreSQL cannot hold and is followed by hexadecimal digits there, so three texts are joined in one way only.
  add constraint stored_events_identity exclude using hash ((key || E'\uFFFE|' || source || E'\uFFFE|' || id) with =);
create index stored_events_key on troupe.stored_events (key);
create index events_key_idx on troupe.stored_events (key) where name = 'record.amended';
-- Archives are restored whole and seldom: what lies in one is found without an index.
drop index troupe.pruned_archive_id_idx;
analyze troupe.stored_events;
