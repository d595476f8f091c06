create view report.reward_alignment as
  select origin, name, method_key, role, count(*) as targets, count(local_reward) as known,
         avg(local_reward) filter (where solved) as mean_when_solved, avg(local_reward) filter (where not solved) as mean_when_not,
         corr(local_reward, team_reward) as correlation,
         count(*) filter (where local_reward > 0 and not solved) as praised_in_failure,
         count(*) filter (where local_reward <= 0 and solved) as unpraised_in_success,
         team_id, split, policy, checkpoint_id, weights
  from report.local_rewards group by origin, name, method_key, role, team_id, split, policy, checkpoint_id, weights;

comment on view report.reward_alignment is 'Whether a higher local reward goes with a higher team reward, by reward and role, team, split, policy and weights. A correlation near 0, or many local rewards in failures, means that an agent can earn without helping. Episodes with many steps weigh more. Pools: easy and hard tasks of a split, so a correlation may come from the tasks.';
comment on column report.reward_alignment.correlation is 'between local and team reward over targets that have both; null if either never varies';
