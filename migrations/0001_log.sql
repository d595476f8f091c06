--! the log: events, positions, refused records
create schema if not exists troupe;

-- The archive of record. Identity is (key, source, id); the key is what the event is about, so everything about one
-- episode lies in one partition and joins stay local. `partition` and `position` are the order in the log.
create table troupe.events (
  key         text collate "C" not null,
  source      text collate "C" not null,
  id          text collate "C" not null,
  name        text not null,
  time        timestamptz,
  data        json not null,
  digest      text not null,
  partition   smallint not null,
  position    bigint not null,
  recorded_at timestamptz not null default clock_timestamp(),
  primary key (key, source, id)
) partition by hash (key);
do $$ begin for i in 0..15 loop
  execute format('create table troupe.events_%s partition of troupe.events for values with (modulus 16, remainder %s)', i, i);
end loop; end $$;
create index on troupe.events (partition, position);
create index on troupe.events (key) where name = 'record.amended';

-- The embedded log gives positions under the lock of the partition's row: they commit in order and without gaps.
create table troupe.log_partitions (
  partition     smallint primary key,
  next_position bigint not null default 0
);
insert into troupe.log_partitions (partition) select generate_series(0, 15);

-- How far each projection has read each partition: the next position it will read. Moved in the transaction of the rows.
create table troupe.positions (
  projection  text not null,
  log         text not null,
  partition   smallint not null,
  position    bigint not null default 0,
  applied     bigint not null default 0,
  duplicates  bigint not null default 0,
  dead        bigint not null default 0,
  primary key (projection, log, partition)
);

-- Conservation at the door: received = acknowledged + duplicates + rejected.
create table troupe.door_counts (
  door         text primary key,
  received     bigint not null default 0,
  acknowledged bigint not null default 0,
  duplicates   bigint not null default 0,
  rejected     bigint not null default 0
);

create table troupe.dead_letters (
  dead_letter_id bigint generated always as identity primary key,
  door        text not null,
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
  heartbeat_at timestamptz not null default clock_timestamp()
);
