create view traj.pruned as
  select case when p.key like 'e/%' then substr(p.key, 3) end as episode_id, p.key, p.group_id, p.events, p.first_at, p.last_at,
         p.archive_id, a.uri, a.sha256, p.pruned_at, p.in_tables
  from troupe.pruned p join troupe.archives a using (archive_id);

comment on view traj.pruned is 'Data moved from the log to Parquet files, one row for each episode and other key. uri is the folder, whose manifest names its files. troupe prune restore brings it back; until then events about it are refused.';
comment on column traj.pruned.group_id is 'the group it was pruned with: the announced one, otherwise its task, otherwise the episode alone';
comment on column traj.pruned.sha256 is 'of the manifest, which has the hash of each file';
comment on column traj.pruned.in_tables is 'true if the views still show it: a rebuild read its events from the archive';
