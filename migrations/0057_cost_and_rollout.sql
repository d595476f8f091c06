--! what calls cost in US dollars, and the rollout of what is pooled
create or replace view traj.steps as
  select s.episode_id, s.call_id || '/' || s.candidate as step_id, s.call_id, s.candidate,
         coalesce(c.completed_agent_id, c.requested_agent_id) as agent_id,
         coalesce(a.name, c.completed_agent_id, c.requested_agent_id) as agent,
         coalesce(c.completed_role, c.requested_role, a.role, a.name, c.completed_agent_id collate "default", c.requested_agent_id) as role,
         coalesce(c.completed_turn, c.requested_turn) as turn,
         troupe.seq_of(coalesce(c.requested_seq, c.completed_seq), coalesce(c.requested_at, c.completed_at), coalesce(c.completed_turn, c.requested_turn)) as seq,
         e.task_id, e.group_id, e.team_id,
         s.text, case when position(E'"\uFFFE#' in s.content::text) > 0 then troupe.json_short('e/' || s.episode_id, s.content) else s.content end as content,
         s.finish_reason, s.token_ids, s.logprobs, s.loss_mask, s.chosen, s.parent_step_id,
         c.prompt_token_ids, c.model, c.response_model, c.policy, c.checkpoint_id, c.model_version, c.temperature, c.seed,
         c.input_tokens, c.output_tokens, c.latency_ms, c.error, c.requested_at, c.completed_at,
         case when coalesce(c.completed_role, c.requested_role, a.role) is not null then 'given'
              when coalesce(c.completed_agent_id, c.requested_agent_id) is not null then 'agent name' end as role_source,
         troupe.untrainable(c.copied, c.error, c.completed_flags, s.token_ids, c.prompt_token_ids, s.logprobs, c.checkpoint_id, c.model_version, c.params) is null as trainable,
         troupe.untrainable(c.copied, c.error, c.completed_flags, s.token_ids, c.prompt_token_ids, s.logprobs, c.checkpoint_id, c.model_version, c.params) as untrainable,
         (c.usage ->> 'cost_usd')::double precision as cost_usd
  from facts.steps s
  join facts.calls c using (episode_id, call_id)
  left join facts.episodes e using (episode_id)
  left join facts.agents a on a.episode_id = s.episode_id and a.agent_id = coalesce(c.completed_agent_id, c.requested_agent_id);

comment on column traj.steps.cost_usd is 'US dollars of the call, as its source states them or by the price of its upstream; null where neither does. The candidates of a call repeat it, as they repeat its tokens';

create or replace view traj.outcomes as
  select e.episode_id, e.task_id, coalesce(e.group_id, e.task_id, e.episode_id) as group_id, e.team_id, t.name as team,
         e.outcome, e.reward,
         case when e.reward is not null then e.reward >= 1
              when e.outcome = 'success' then true
              when e.outcome in ('failure', 'timeout') then false end as solved,
         case when e.reward is not null then 'reward'
              when e.outcome in ('success', 'failure', 'timeout') then 'outcome' end as solved_by,
         nullif(e.agents, 0) as members, e.calls, e.steps, e.tool_calls, e.input_tokens, e.output_tokens,
         e.input_tokens + e.output_tokens as tokens, e.closed,
         k.split collate "C" as split, array_to_string(e.spoke_policies, ' + ') collate "C" as policy,
         array_to_string(e.spoke_checkpoints, ' + ') collate "C" as checkpoint_id, array_to_string(e.spoke_weights, ' + ') collate "C" as weights,
         e.tags ->> 'rollout' as rollout,
         (select case when count(*) = count(c.usage ->> 'cost_usd') then sum((c.usage ->> 'cost_usd')::double precision) end
          from facts.calls c where c.episode_id = e.episode_id and c.copied is not true) as cost_usd
  from facts.episodes e left join facts.teams t using (team_id) left join facts.tasks k on k.task_id = e.task_id;

comment on column traj.outcomes.rollout is 'the rollout that played it (its tag rollout); null where none did';
comment on column traj.outcomes.cost_usd is 'US dollars of its calls; null unless each of them has a cost';

create or replace view traj.pass_at_k as
  with counted as (
    select task_id, team_id, split, policy, checkpoint_id, weights, rollout, count(*) as episodes, count(solved) as n, count(*) filter (where solved) as c
    from traj.outcomes where task_id is not null group by task_id, team_id, split, policy, checkpoint_id, weights, rollout
  )
  select q.task_id, q.team_id, k.k::integer as k, q.n, q.c, q.episodes - q.n as unknown,
         case when k.k is not null then 1 - traj.product(greatest(q.n - q.c - k.k + 1, 0)::double precision / (q.n - k.k + 1)) over w end as pass_at_k,
         case when k.k is not null then traj.product(greatest(q.c - k.k + 1, 0)::double precision / (q.n - k.k + 1)) over w end as pass_all_k,
         q.split, q.policy, q.checkpoint_id, q.weights, q.rollout
  from counted q left join lateral generate_series(1, q.n) as k (k) on true
  window w as (partition by q.task_id, q.team_id, q.policy, q.checkpoint_id, q.weights, q.rollout order by k.k);

comment on view traj.pass_at_k is 'For each task, team, policy, weights and rollout, and k up to the number n of its episodes: the chance that at least one of k episodes drawn from them solves it, 1 - C(n-c,k)/C(n,k), and that all k do. Average over tasks, not over rows, and only over tasks that have the same k. Misleads when many episodes are unknown: they are left out, not counted as failures. Pools: the episodes of one task by one team with the same weights in one rollout; those that no rollout played, whenever they were played.';
comment on column traj.pass_at_k.rollout is 'the rollout that played the episodes; null where none did';

create or replace view traj.agreement as
  with given as (
    select o.task_id, o.team_id, o.split, o.policy, o.checkpoint_id, o.weights, o.rollout, o.episode_id, o.solved, traj.plain_answer(e.answer) as answer
    from traj.outcomes o join facts.episodes e using (episode_id)
    where o.task_id is not null and e.finished_version is not null
  ),
  counted as (
    select task_id, team_id, split, policy, checkpoint_id, weights, rollout, answer, count(*) as votes, min(episode_id) as first, count(solved) as known, count(*) filter (where solved) as solved
    from given group by task_id, team_id, split, policy, checkpoint_id, weights, rollout, answer
  ),
  ranked as (
    select *, row_number() over (w order by answer is null, votes desc, first) as place,
           sum(votes) over w as episodes, sum(votes) filter (where answer is not null) over w as answered,
           count(answer) over w as distinct_answers,
           answer is not null and votes = lead(votes) over (w order by answer is null, votes desc, first)
             and lead(answer) over (w order by answer is null, votes desc, first) is not null as tied
    from counted window w as (partition by task_id, team_id, policy, checkpoint_id, weights, rollout)
  )
  select r.task_id, r.team_id, r.episodes::bigint as episodes, coalesce(r.answered, 0)::bigint as answered, r.distinct_answers,
         r.answer as majority, case when r.answer is not null then r.votes end as votes,
         case when r.answer is not null then r.votes::double precision / r.episodes::bigint end as agreement,
         r.tied,
         case when r.answer is null or t.truth is null then null
              when r.answer = t.truth then true
              when r.answer ~ '^[+-]?(\d{1,30}\.?\d{0,30}|\.\d{1,30})$' and t.truth ~ '^[+-]?(\d{1,30}\.?\d{0,30}|\.\d{1,30})$'
                then abs(r.answer::numeric - t.truth::numeric) <= 1e-9
              else false end as majority_right,
         case when r.answer is not null then r.solved::double precision / nullif(r.known, 0) end as majority_solve_rate,
         r.split, r.policy, r.checkpoint_id, r.weights, r.rollout
  from ranked r
  left join facts.tasks k on k.task_id = r.task_id
  cross join lateral (select case when json_typeof(k.ground_truth) in ('string', 'number', 'boolean') then traj.plain_answer(k.ground_truth #>> '{}') end as truth) t
  where r.place = 1;

comment on view traj.agreement is 'How far the finished episodes of a task, team, policy, weights and rollout give the same answer. Misleads where answers are long texts, which never agree word for word, and where a team agrees on a wrong answer: read majority_right beside it. Pools: the finished episodes of one task by one team with the same weights in one rollout; those that no rollout played, whenever they were played.';
comment on column traj.agreement.rollout is 'the rollout that played the episodes; null where none did';

create or replace view traj.cost_per_solved as
  with spent as (
    select team_id, split, policy, checkpoint_id, weights, max(team) as team, count(*) as episodes, count(distinct task_id) as tasks, count(solved) as known,
           count(*) filter (where solved) as solved, count(*) filter (where solved is not null and tokens is not null) as metered,
           count(*) filter (where solved and tokens is not null) as solved_metered,
           sum(tokens) filter (where solved is not null)::bigint as tokens,
           sum(calls) filter (where solved is not null)::bigint as calls, sum(tool_calls) filter (where solved is not null)::bigint as tool_calls,
           case when count(solved) = count(cost_usd) filter (where solved is not null) then sum(cost_usd) filter (where solved is not null) end as cost_usd
    from traj.outcomes group by team_id, split, policy, checkpoint_id, weights
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

comment on view traj.cost_per_solved is 'What a team spends for each task it solves, by split, policy and weights, over the episodes of which it is known whether they were solved. Dominated: with the same weights and split another row solves at least as large a share for less (or more for the same), so nothing speaks for this one. Misleads where teams were given other tasks of the split: compare tasks first. The row without team_id is all episodes that name no team. Pools: all tasks of a split, and all rollouts of a team.';
comment on column traj.cost_per_solved.cost_usd is 'US dollars of all calls of known episodes; null unless each of them has a cost';
comment on column traj.cost_per_solved.cost_usd_per_solved is 'of solved and failed episodes alike, for each solved one; null when none was solved or a call has no cost';
