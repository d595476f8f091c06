create view traj.erasures as
  select e.erasure_id, e.kind, e.reason, e.events, e.episodes, e.erased_at, u.kind as used_by, u.id collate "C" as used_by_id, u.removed
  from troupe.erasures e left join lateral json_to_recordset(e.used) as u (kind text, id text, removed boolean) on true;

comment on view traj.erasures is 'One row for each dataset or checkpoint that had used erased data (null if none had). removed: its files are deleted. A checkpoint is only marked; its weights may still remember.';
