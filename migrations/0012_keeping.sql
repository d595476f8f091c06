--! keeping: redactions, erasures
create view traj.redactions as
  select e.key, case when e.key like 'e/%' then substr(e.key, 3) end as episode_id, e.source, e.id, e.name as event, r.key as rule,
         case when r.value ~ '^[0-9]{1,9}$' then r.value::integer end as count
  from troupe.events e
  cross join lateral json_each_text(case when json_typeof(e.data -> 'redactions') = 'object' then e.data -> 'redactions' else '{}' end) r
  where e.data::text like '%"redactions":{%';
comment on view traj.redactions is 'Secrets that were replaced before the log, a row for each event and rule. The value is nowhere; a mark with the name of the rule stands where it was. Reads the whole log.';

-- What was erased. Neither names nor text: the keys are what a later import is refused by.
create table troupe.erasures (
  erasure_id text collate "C" primary key,
  kind       text not null check (kind in ('subject', 'episode')),
  reason     text,
  events     integer not null,
  episodes   integer not null,
  erased_at  timestamptz not null
);
create table troupe.erased (
  key        text collate "C" not null,
  erasure_id text collate "C" not null,
  primary key (key)
);
create table troupe.erased_use (
  erasure_id text collate "C" not null,
  kind       text not null check (kind in ('dataset', 'checkpoint')),
  id         text collate "C" not null,
  removed    boolean not null default false,
  primary key (erasure_id, kind, id)
);

create view traj.erasures as
  select e.erasure_id, e.kind, e.reason, e.events, e.episodes, e.erased_at, u.kind as used_by, u.id as used_by_id, u.removed
  from troupe.erasures e left join troupe.erased_use u using (erasure_id);
comment on view traj.erasures is 'Erasures, a row for each dataset or checkpoint that had used what was erased (null where nothing had). removed: its files are gone. A checkpoint is marked; nobody claims that its weights forgot.';
