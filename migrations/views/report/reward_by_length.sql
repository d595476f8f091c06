create view report.reward_by_length as
  with measured as (
    select o.team_id, o.split, o.policy, o.checkpoint_id, o.weights, o.solved, o.reward, x.measure, x.amount
    from report.outcomes o
    cross join lateral (values ('calls', o.calls::bigint), ('steps', o.steps::bigint), ('tool_calls', o.tool_calls::bigint),
      ('input_tokens', o.input_tokens), ('output_tokens', o.output_tokens), ('members', o.members::bigint)) as x (measure, amount)
  ),
  bucketed as (
    select *, case when amount > 0 then 1::bigint << (length(ltrim(amount::bit(64)::text, '0')) - 1) when amount = 0 then 0 end as at_least from measured
  )
  select team_id, measure, at_least, case when at_least = 0 then 1 else at_least * 2 end as below, count(*) as episodes,
         count(solved) as known, count(*) filter (where solved) as solved,
         count(*) filter (where solved)::double precision / nullif(count(solved), 0) as solve_rate, avg(reward) as mean_reward,
         split, policy, checkpoint_id, weights
  from bucketed group by team_id, measure, at_least, split, policy, checkpoint_id, weights;

comment on view report.reward_by_length is 'Solve rate and mean reward by the length of an episode, in buckets that double (0, 1, 2 to 3, 4 to 7 …), for each team, split, policy, weights and measure: calls, steps, tool_calls, input_tokens, output_tokens, members. Hard tasks take longer and fail more, so a fall with length says nothing about one task. Pools: all tasks of a split.';
comment on column report.reward_by_length.at_least is 'null: episodes of unrecorded length';
