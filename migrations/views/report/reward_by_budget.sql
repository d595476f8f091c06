create view report.reward_by_budget as
  select o.team_id, b.key as budget, b.value as amount, count(*) as episodes, count(o.solved) as known, count(*) filter (where o.solved) as solved,
         count(*) filter (where o.solved)::double precision / nullif(count(o.solved), 0) as solve_rate, avg(o.reward) as mean_reward,
         avg(o.tool_calls)::double precision as mean_tool_calls, avg(o.calls)::double precision as mean_calls, avg(o.tokens)::double precision as mean_tokens,
         case when b.value ~ '^\d{1,9}$' and b.key ~* 'tool_?call' then count(*) filter (where o.tool_calls >= b.value::numeric) end as used_up,
         o.split, o.policy, o.checkpoint_id, o.weights
  from facts.episodes e
  cross join lateral json_each_text(case when json_typeof(e.budgets) = 'object' then e.budgets else '{}'::json end) b
  join report.outcomes o on o.episode_id = e.episode_id
  group by o.team_id, b.key, b.value, o.split, o.policy, o.checkpoint_id, o.weights;

comment on view report.reward_by_budget is 'Solve rate by the budget of an episode, for each team, split, policy and weights: one row for each limit as recorded and each of its values. Rows of different limits contain the same episodes. Episodes without recorded budgets have no row; report.reward_by_length shows what was used. Pools: all tasks of a split, which may differ between budgets.';
comment on column report.reward_by_budget.used_up is 'episodes that used all their tool calls; null for other limits';
