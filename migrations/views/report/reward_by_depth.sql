create view report.reward_by_depth as
  with depths as (select episode_id, max(depth) as depth from facts.agents group by episode_id)
  select o.team_id, d.depth, count(*) as episodes, count(o.solved) as known, count(*) filter (where o.solved) as solved,
         count(*) filter (where o.solved)::double precision / nullif(count(o.solved), 0) as solve_rate, avg(o.reward) as mean_reward,
         avg(o.members)::double precision as mean_members, avg(o.calls)::double precision as mean_calls,
         o.split, o.policy, o.checkpoint_id, o.weights
  from report.outcomes o left join depths d using (episode_id)
  group by o.team_id, d.depth, o.split, o.policy, o.checkpoint_id, o.weights;

comment on view report.reward_by_depth is 'Solve rate by the depth of the deepest agent of an episode, for each team, split, policy and weights. depth is the source''s; null if no agent has one, which is not depth 0. Pools: all tasks of a split.';
