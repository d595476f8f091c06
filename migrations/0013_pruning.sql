--! pruning: which episodes left the database, and where they lie
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

-- What a later event is refused by. touched and judged bring back how far the judge had looked; erased: its text was gone before.
create table troupe.pruned (
  key        text collate "C" primary key,
  archive_id text collate "C" not null references troupe.archives,
  group_id   text collate "C" not null,
  events     integer not null,
  first_at   timestamptz,
  last_at    timestamptz,
  touched    bigint,
  judged     json,
  erased     boolean not null default false,
  pruned_at  timestamptz not null
);
create index on troupe.pruned (archive_id);

-- Positions of the log that no event has any more, because it was pruned.
create table troupe.pruned_positions (
  partition smallint primary key,
  events    bigint not null default 0
);

-- Bodies of artifacts that pruned events named; those that nobody else names are removed after the commit.
create table troupe.unneeded_bodies (
  sha256 text collate "C" primary key
);

create view traj.pruned as
  select case when p.key like 'e/%' then substr(p.key, 3) end as episode_id, p.key, p.group_id, p.events, p.first_at, p.last_at,
         p.archive_id, a.uri, a.sha256, p.pruned_at
  from troupe.pruned p join troupe.archives a using (archive_id);
comment on view traj.pruned is 'What left the log for Parquet files, a row for each episode and other key. uri is the folder, whose manifest names its files; troupe prune --restore brings it back, and until then events about it are refused.';
comment on column traj.pruned.group_id is 'the group it went with: the announced one, else its task, else the episode alone';
comment on column traj.pruned.sha256 is 'of the manifest, which has that of each file';
