--! events name the version of their type
--! works with 37
-- Events are kept in the version in which they were sent. What code before this writes is of version 1, which the default says.
alter table troupe.stored_events add column type_version smallint not null default 1;

create or replace view troupe.events as
  select key, source, id, name, time, troupe.whole(key, data) as data,
         case when length(digest) = 32 then encode(digest, 'hex') else convert_from(digest, 'UTF8') end collate "default" as digest,
         partition, position, recorded_at, log, type_version
  from troupe.stored_events;

create or replace view traj.events as
  select e.key, e.source, e.id, 'troupe.' || e.name || '.v' || e.type_version as type, e.time, e.data, e.partition, e.position, e.recorded_at, l.label as log
  from troupe.events e join troupe.logs l using (log);

-- What newer code wrote waits as dead letters, and every projector asks for them when it starts.
create index dead_letters_newer on troupe.dead_letters (dead_letter_id)
  where code in ('unknown_version', 'unknown_event') and replayed_at is null;
