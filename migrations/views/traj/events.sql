create view traj.events as
  select e.key, e.source, e.id, 'troupe.' || e.name || '.v' || e.type_version as type, e.time, e.data, e.partition, e.position, e.recorded_at, l.label as log
  from troupe.events e join troupe.logs l using (log);

comment on view traj.events is 'The log: every fact, immutable.';
comment on column traj.events.log is 'the log of partition and position: embedded, or a topic; #1, #2 … after the name if it replaced another';
