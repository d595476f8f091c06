--! Kafka as the log: where each topic was read, and which record was read last

-- A log outside the database has rows here too, under `kafka:<topic>`. Their position is the offset that is read next; `began` the
-- offset that was read first. The last record applied is kept by offset and digest, so that a topic that was cut or made anew is known.
alter table troupe.positions
  add column began       bigint,
  add column last_offset bigint,
  add column last_digest text;

-- A topic as it was when it was first read. Keys are spread over its partitions, so their number must not change under way.
create table troupe.kafka_topics (
  log        text primary key,
  cluster_id text,
  partitions integer not null,
  first_read timestamptz not null default clock_timestamp()
);
