create view traj.pruned as
  select case when p.key like 'e/%' then substr(p.key, 3) end as episode_id, p.key, p.group_id, p.events, p.first_at, p.last_at,
         p.archive_id, a.uri, a.sha256, p.pruned_at, p.in_tables
  from troupe.pruned p join troupe.archives a using (archive_id);

comment on view traj.pruned is 'What left the log for Parquet files, a row for each episode and other key. uri is the folder, whose manifest names its files; troupe prune --restore brings it back, and until then events about it are refused.';
comment on column traj.pruned.group_id is 'the group it went with: the announced one, else its task, else the episode alone';
comment on column traj.pruned.sha256 is 'of the manifest, which has that of each file';
comment on column traj.pruned.in_tables is 'true where the views show it all the same: a rebuild read its events in the archive';
