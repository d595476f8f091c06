--! work to do: a queue may change, what happened is an event
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
  outcome      text,
  result       json,
  error        json
);
create index on troupe.job_queue (kind, requested_at) where state <> 'finished';
