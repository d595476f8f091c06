create view report.reward_alignment as
  select origin, name, method_key, role, count(*) as targets, count(local_reward) as known,
         avg(local_reward) filter (where solved) as mean_when_solved, avg(local_reward) filter (where not solved) as mean_when_not,
         corr(local_reward, team_reward) as correlation,
         count(*) filter (where local_reward > 0 and not solved) as praised_in_failure,
         count(*) filter (where local_reward <= 0 and solved) as unpraised_in_success,
         team_id, split, policy, checkpoint_id, weights
  from report.local_rewards group by origin, name, method_key, role, team_id, split, policy, checkpoint_id, weights;

comment on view report.reward_alignment is 'Does pleasing the local reward please the team? By reward and role, team, split, policy and weights. A correlation near 0, or much praise in failures, says that an agent can earn without helping. Episodes with many steps weigh more. Pools: easy and hard tasks of a split, so that a correlation may be that of the tasks.';
comment on column report.reward_alignment.correlation is 'of local and team reward over targets that have both; null when either never varies';
