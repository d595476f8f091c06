--! task and group of calls
-- The gateway's headers Troupe-Task and Troupe-Group stand with the call. episodes.task_id and group_id are recomputed from what
-- episode.started names and, where it names none, from the calls.
alter table facts.calls add column task_id text collate "C", add column group_id text collate "C";
alter table facts.episodes add column started_task_id text collate "C", add column started_group_id text collate "C";

update facts.episodes set started_task_id = task_id, started_group_id = group_id where task_id is not null or group_id is not null;

update facts.calls set task_id = requested_unmapped ->> 'task_id', group_id = requested_unmapped ->> 'group_id'
where requested_version like '%' || chr(1) || '/gateway'
  and coalesce(requested_unmapped ->> 'task_id', requested_unmapped ->> 'group_id') is not null;

-- Touched, so that what was judged without its group is judged again.
update facts.episodes e
set task_id = coalesce(e.started_task_id, c.task_id), group_id = coalesce(e.started_group_id, c.group_id), touched_position = e.touched_position + 1
from (select episode_id,
             (array_agg(task_id order by requested_version desc) filter (where task_id is not null))[1] as task_id,
             (array_agg(group_id order by requested_version desc) filter (where group_id is not null))[1] as group_id
      from facts.calls where task_id is not null or group_id is not null group by episode_id) c
where c.episode_id = e.episode_id;
