--! a job that waits for another one
-- It is given out again once that job has finished. Null: it waits for nobody.
alter table troupe.job_queue add column waits_for text collate "C";
