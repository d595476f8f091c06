--! tasks as traces tell them
-- A trace says what its task is from all its spans, so what it says may change; another trace of the same task may say it otherwise.
-- tasks shows one of them, the last by version: this is what the others say, in case that one is taken back.
create table facts.told_tasks (
  episode_id text collate "C" not null,
  task_id text collate "C" not null,
  told json not null,
  version text collate "C" not null,
  primary key (episode_id, task_id)
);
create index on facts.told_tasks (task_id);
