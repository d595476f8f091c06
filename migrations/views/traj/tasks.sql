create view traj.tasks as
  select task_id, query, content, ground_truth, reference, tests, origin, split, difficulty, domain, tags, unmapped from facts.tasks;

comment on view traj.tasks is 'Problems. ground_truth and reference come from the source; never put them into a prompt.';
