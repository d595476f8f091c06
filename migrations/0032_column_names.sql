--! no column of a table is called by, at or index
-- Views keep the names that they show.
alter table facts.feedback rename column "by" to author;
alter table facts.feedback rename column at to occurred_at;
alter table facts.decisions rename column "by" to author;
alter table facts.decisions rename column at to occurred_at;
alter table facts.observations rename column at to occurred_at;
alter table facts.job_metrics rename column at to occurred_at;
alter table facts.releases rename column "by" to author;
alter table facts.tool_calls rename column index to tool_index;
