--! the place of an event: log, partition, position
-- A log is the embedded one, number 0, or one incarnation of a topic. Events that came by Kafka lie at the partition and offset of
-- their record; those that older code archived stay where they are, in the embedded log.
create table troupe.logs (
  log         smallint primary key,
  name        text not null,
  generation  integer not null default 0,
  cluster_id  text,
  partitions  integer not null,
  first_read  timestamptz not null default clock_timestamp(),
  replaced_at timestamptz,
  unique (name, generation)
);
insert into troupe.logs (log, name, partitions) select 0, 'embedded', count(*) from troupe.log_partitions;
insert into troupe.logs (log, name, cluster_id, partitions, first_read)
  select row_number() over (order by p.log), p.log, t.cluster_id, coalesce(t.partitions, p.partitions), coalesce(t.first_read, clock_timestamp())
  from (select log, count(*)::integer as partitions from troupe.positions where projection = 'archive' group by log) p
  left join troupe.kafka_topics t using (log);
drop table troupe.kafka_topics;

alter table troupe.positions rename column log to name;
alter table troupe.positions add column log smallint references troupe.logs;
update troupe.positions p set log = l.log from troupe.logs l where l.name = p.name;
alter table troupe.positions drop column name, alter column log set not null, add primary key (projection, log, partition);
-- What is archived of a topic is applied in the same transaction: how far, and how many, is counted for each log.
insert into troupe.positions (projection, log, partition, position)
  select 'facts', log, partition, position from troupe.positions where projection = 'archive';
insert into troupe.positions (projection, log, partition) select 'facts', 0, partition from troupe.log_partitions on conflict do nothing;

alter table troupe.events add column log smallint not null default 0;
alter table troupe.events alter column log drop default;
alter table troupe.events add constraint events_place unique (log, partition, position);
drop index troupe.events_partition_position_idx;

alter table troupe.pruned_positions add column log smallint not null default 0;
alter table troupe.pruned_positions alter column log drop default;
alter table troupe.pruned_positions drop constraint pruned_positions_pkey, add primary key (log, partition);

-- Which projector works on which partition of the embedded log. It only divides the work: what keeps a batch whole is the lock of its
-- positions, so a lease that ends too soon costs nothing but a look.
create table troupe.partition_leases (
  partition    smallint primary key,
  owner        uuid,
  leased_until timestamptz
);
insert into troupe.partition_leases (partition) select partition from troupe.log_partitions;

-- What a batch changed that matters to keys of other partitions: settled after its commit, under the locks of those.
create table troupe.unsettled (what json not null);

create or replace view traj.events as
  select e.key, e.source, e.id, 'troupe.' || e.name || '.v1' as type, e.time, e.data, e.partition, e.position, e.recorded_at, l.name as log
  from troupe.events e join troupe.logs l using (log);
comment on column traj.events.log is 'the log that partition and position belong to: embedded, or a topic';
