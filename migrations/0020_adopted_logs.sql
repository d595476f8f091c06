--! logs that took the place of others: a label for each incarnation
-- A topic that was deleted and made anew is another log under the same name. The label tells them apart wherever a place is shown.
alter table troupe.logs add column label text not null
  generated always as (name || case when generation > 0 then '#' || generation::text else '' end) stored;

create or replace view traj.events as
  select e.key, e.source, e.id, 'troupe.' || e.name || '.v1' as type, e.time, e.data, e.partition, e.position, e.recorded_at, l.label as log
  from troupe.events e join troupe.logs l using (log);
comment on column traj.events.log is 'the log that partition and position belong to: embedded, or a topic; #1, #2 … after its name where it took the place of another';
