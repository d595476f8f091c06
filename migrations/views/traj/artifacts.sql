create view traj.artifacts as
  select a.episode_id, a.artifact_id, a.role, a.media_type, a.size, a.name, a.uri, null::json as flags, a.key
  from facts.artifacts a
  union all
  select case when starts_with(b.key, 'e/') then substr(b.key, 3) end, encode(b.blob, 'hex') collate "C",
         case when starts_with(b.media_type, 'image/') then 'image' else 'file' end, b.media_type,
         (select octet_length(o.bytes) from troupe.blobs o where o.sha256 = b.blob), null, null,
         case when b.blob is null then '["unreadable_blob"]'::json end, b.key
  from (select distinct key, blob, media_type, case when blob is null then hash end as unread from troupe.bodies where media_type is not null) b;

comment on view traj.artifacts is 'One row for each file attached by an event, and for each image or file in the messages of an episode or task.';
comment on column traj.artifacts.artifact_id is 'for an image or file in messages, the SHA-256 of its bytes; null if its base64 cannot be restored exactly';
comment on column traj.artifacts.role is 'patch, code, file, image, log, raw-record, checkpoint or dataset';
comment on column traj.artifacts.size is 'bytes';
comment on column traj.artifacts.flags is 'unreadable_blob: base64 that cannot be restored exactly; it stays in its message';
