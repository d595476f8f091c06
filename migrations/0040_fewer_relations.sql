--! two tables of short names need no place for long values, and newer dead letters no index
--! works with 39
-- An empty project has at most 250 relations. A table whose rows are short by their types has neither a table nor an index for long values.
alter table troupe.door_counts rename to door_counts_before;
alter index troupe.door_counts_pkey rename to door_counts_before_pkey;
create table troupe.door_counts (
  door         varchar(64) primary key,
  received     bigint not null default 0,
  acknowledged bigint not null default 0,
  duplicates   bigint not null default 0,
  rejected     bigint not null default 0
);
insert into troupe.door_counts select * from troupe.door_counts_before;
drop table troupe.door_counts_before;

alter table troupe.unneeded_bodies rename to unneeded_bodies_before;
alter index troupe.unneeded_bodies_pkey rename to unneeded_bodies_before_pkey;
create table troupe.unneeded_bodies (sha256 varchar(64) collate "C" primary key);
insert into troupe.unneeded_bodies select * from troupe.unneeded_bodies_before;
drop table troupe.unneeded_bodies_before;

-- A projector asks for them once, when it starts.
drop index troupe.dead_letters_newer;
