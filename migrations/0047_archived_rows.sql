--! a rebuild can show what lies in archives
--! works with 46
-- Archived events stay where they lie; the tables may hold the rows that were made of them. They are read again by each rebuild, until a
-- prune takes them out of the tables or a restore brings the events back.
alter table troupe.pruned add column in_tables boolean not null default false;

create or replace view traj.pruned as
  select case when p.key like 'e/%' then substr(p.key, 3) end as episode_id, p.key, p.group_id, p.events, p.first_at, p.last_at,
         p.archive_id, a.uri, a.sha256, p.pruned_at, p.in_tables
  from troupe.pruned p join troupe.archives a using (archive_id);
comment on column traj.pruned.in_tables is 'true where the views show it all the same: a rebuild read its events in the archive';
