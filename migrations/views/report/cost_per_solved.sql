create view report.cost_per_solved as
  with spent as (
    select team_id, split, policy, checkpoint_id, weights, max(team) as team, count(*) as episodes, count(distinct task_id) as tasks, count(solved) as known,
           count(*) filter (where solved) as solved, count(*) filter (where solved is not null and tokens is not null) as metered,
           count(*) filter (where solved and tokens is not null) as solved_metered,
           sum(tokens) filter (where solved is not null)::bigint as tokens,
           sum(calls) filter (where solved is not null)::bigint as calls, sum(tool_calls) filter (where solved is not null)::bigint as tool_calls,
           case when count(solved) = count(cost_usd) filter (where solved is not null) then sum(cost_usd) filter (where solved is not null) end as cost_usd
    from report.outcomes group by team_id, split, policy, checkpoint_id, weights
  ),
  rated as (
    select *, solved::double precision / nullif(known, 0) as solve_rate, calls::double precision / nullif(known, 0) as calls_per_episode,
           case when metered = known then tokens::double precision / nullif(known, 0) end as tokens_per_episode
    from spent
  )
  select team_id, team, episodes, tasks, known, solved, solve_rate, calls, tool_calls, tokens, metered,
         calls::double precision / nullif(solved, 0) as calls_per_solved, tool_calls::double precision / nullif(solved, 0) as tool_calls_per_solved,
         tokens::double precision / nullif(solved_metered, 0) as tokens_per_solved,
         case when known > 0 then coalesce(max(solve_rate) over cheaper >= solve_rate, false) or max(solve_rate) over as_cheap > solve_rate end as dominated_on_calls,
         case when tokens_per_episode is not null
              then coalesce(max(case when tokens_per_episode is not null then solve_rate end) over fewer >= solve_rate, false)
                or max(case when tokens_per_episode is not null then solve_rate end) over as_few > solve_rate end as dominated_on_tokens,
         split, policy, checkpoint_id, weights, cost_usd, cost_usd / nullif(solved, 0) as cost_usd_per_solved
  from rated
  window cheaper as (partition by split, weights order by calls_per_episode groups between unbounded preceding and 1 preceding),
         as_cheap as (partition by split, weights, calls_per_episode),
         fewer as (partition by split, weights order by tokens_per_episode groups between unbounded preceding and 1 preceding),
         as_few as (partition by split, weights, tokens_per_episode);

comment on view report.cost_per_solved is 'What a team spends per solved task, by split, policy and weights, over episodes with a known outcome. Dominated: another row with the same weights and split solves at least as large a share for less, or more for the same. Misleads if teams had other tasks of the split: compare tasks first. The row without team_id holds all episodes that name no team. Pools: all tasks of a split, and all rollouts of a team.';
comment on column report.cost_per_solved.metered is 'known episodes with token counts; tokens are summed over these only';
comment on column report.cost_per_solved.calls_per_solved is 'calls of solved and failed episodes, per solved one; null if none was solved';
comment on column report.cost_per_solved.dominated_on_tokens is 'null unless every known episode of the team has token counts';
comment on column report.cost_per_solved.cost_usd is 'US dollars of all calls of known episodes; null unless each of them has a cost';
comment on column report.cost_per_solved.cost_usd_per_solved is 'cost of solved and failed episodes, per solved one; null if none was solved or a call has no cost';
