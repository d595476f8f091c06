--! a task that was named beats one made of a text
-- The task has a version of its own: 2 for a name, 1 for the hash of a text, 0 for none, then the version of its event.
alter table facts.episodes add column task_version text collate "C";
update facts.episodes set task_version =
  case when started_task_id is null then '0 ' when started_task_id ~ '^text/[0-9a-f]{32}$' then '1 ' else '2 ' end || started_version
where started_version is not null;
