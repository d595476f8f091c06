--! rates: by team, split, policy and checkpoint
-- The same team answers with other weights after each round of training, and tasks of the training split are drawn anew each round. A rate
-- over all of that can have the opposite sign of every part of it. Each view of rates therefore has a row for each team, split, policy
-- and weights, compares only what the same weights did, and says in its comment what a row still pools.

-- Who spoke in an episode: recomputed with its other counts. The weights of a call are its checkpoint or, where none is recorded, its model.
alter table facts.episodes add column spoke_policies text[], add column spoke_checkpoints text[], add column spoke_weights text[];
comment on column facts.episodes.spoke_weights is 'of each call its checkpoint_id, else its response_model, else its model; sorted, each once; null where no call names any';

update facts.episodes e set spoke_policies = c.policies, spoke_checkpoints = c.checkpoints, spoke_weights = c.weights
from (select episode_id, array_agg(distinct policy collate "C") filter (where policy is not null) as policies,
             array_agg(distinct checkpoint_id collate "C") filter (where checkpoint_id is not null) as checkpoints,
             array_agg(distinct coalesce(checkpoint_id, response_model, model) collate "C") filter (where coalesce(checkpoint_id, response_model, model) is not null) as weights
      from facts.calls group by episode_id) c
where c.episode_id = e.episode_id and coalesce(c.policies, c.checkpoints, c.weights) is not null;

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
         array_to_string(e.spoke_checkpoints, ' + ') collate "C" as checkpoint_id, array_to_string(e.spoke_weights, ' + ') collate "C" as weights
  from facts.episodes e left join facts.teams t using (team_id) left join facts.tasks k on k.task_id = e.task_id;
comment on view traj.outcomes is 'What every view below means by solved: a recorded reward decides (1 or more), where there is none the outcome (success, or failure and timeout). Error, aborted, unknown and unfinished episodes without a reward are null: neither solved nor failed. Misleads where rewards have another scale than 0 to 1. Before you average over it, group by team_id, split, policy and weights.';
comment on column traj.outcomes.split is 'of its task: training, validation, test or what the source calls it; null where nobody said';
comment on column traj.outcomes.policy is 'the policies that spoke, joined by " + " where they are several; null where no call names one';
comment on column traj.outcomes.checkpoint_id is 'the checkpoints that spoke, joined by " + " where they are several; null where no call names one';
comment on column traj.outcomes.weights is 'what spoke: of each call its checkpoint or, where none is recorded, its model; joined by " + " where they are several. The views of rates keep weights apart and compare only the same ones';

create or replace view traj.pass_at_k as
  with counted as (
    select task_id, team_id, split, policy, checkpoint_id, weights, count(*) as episodes, count(solved) as n, count(*) filter (where solved) as c
    from traj.outcomes where task_id is not null group by task_id, team_id, split, policy, checkpoint_id, weights
  )
  select q.task_id, q.team_id, k.k::integer as k, q.n, q.c, q.episodes - q.n as unknown,
         case when k.k is not null then 1 - traj.product(greatest(q.n - q.c - k.k + 1, 0)::double precision / (q.n - k.k + 1)) over w end as pass_at_k,
         case when k.k is not null then traj.product(greatest(q.c - k.k + 1, 0)::double precision / (q.n - k.k + 1)) over w end as pass_all_k,
         q.split, q.policy, q.checkpoint_id, q.weights
  from counted q left join lateral generate_series(1, q.n) as k (k) on true
  window w as (partition by q.task_id, q.team_id, q.policy, q.checkpoint_id, q.weights order by k.k);
comment on view traj.pass_at_k is 'For each task, team, policy and weights, and k up to the number n of its episodes: the chance that at least one of k episodes drawn from them solves it, 1 - C(n-c,k)/C(n,k), and that all k do. Average over tasks, not over rows, and only over tasks that have the same k. Misleads when many episodes are unknown: they are left out, not counted as failures. Pools: the episodes of one task by one team with the same weights, whenever they were played.';

create or replace view traj.agreement as
  with given as (
    select o.task_id, o.team_id, o.split, o.policy, o.checkpoint_id, o.weights, o.episode_id, o.solved, traj.plain_answer(e.answer) as answer
    from traj.outcomes o join facts.episodes e using (episode_id)
    where o.task_id is not null and e.finished_version is not null
  ),
  counted as (
    select task_id, team_id, split, policy, checkpoint_id, weights, answer, count(*) as votes, min(episode_id) as first, count(solved) as known, count(*) filter (where solved) as solved
    from given group by task_id, team_id, split, policy, checkpoint_id, weights, answer
  ),
  ranked as (
    select *, row_number() over (w order by answer is null, votes desc, first) as place,
           sum(votes) over w as episodes, sum(votes) filter (where answer is not null) over w as answered,
           count(answer) over w as distinct_answers,
           answer is not null and votes = lead(votes) over (w order by answer is null, votes desc, first)
             and lead(answer) over (w order by answer is null, votes desc, first) is not null as tied
    from counted window w as (partition by task_id, team_id, policy, checkpoint_id, weights)
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
         r.split, r.policy, r.checkpoint_id, r.weights
  from ranked r
  left join facts.tasks k on k.task_id = r.task_id
  cross join lateral (select case when json_typeof(k.ground_truth) in ('string', 'number', 'boolean') then traj.plain_answer(k.ground_truth #>> '{}') end as truth) t
  where r.place = 1;
comment on view traj.agreement is 'How far the finished episodes of a task, team, policy and weights give the same answer. Misleads where answers are long texts, which never agree word for word, and where a team agrees on a wrong answer: read majority_right beside it. Pools: the finished episodes of one task by one team with the same weights.';

-- What is compared with an episode that has a role is the same task with the same weights in all other roles. Where one checkpoint speaks
-- in all roles that is the checkpoint; where a verifier has weights of its own, a team without a verifier has the solver's alone.
create or replace view traj.role_performance as
  with present as (
    select episode_id, role from (
      select c.episode_id, coalesce(c.completed_role, c.requested_role, a.role, a.name, c.completed_agent_id collate "default", c.requested_agent_id) as role
      from facts.calls c
      left join facts.agents a on a.episode_id = c.episode_id and a.agent_id = coalesce(c.completed_agent_id, c.requested_agent_id)
      union
      select a.episode_id, coalesce(a.role, a.name, a.agent_id collate "default") from facts.agents a
      where a.role is not null or not exists (
        select from facts.calls c where c.episode_id = a.episode_id and coalesce(c.completed_agent_id, c.requested_agent_id) = a.agent_id)
    ) p where role is not null
  ),
  spoken as not materialized (
    select c.episode_id, coalesce(c.completed_role, c.requested_role, a.role, a.name, c.completed_agent_id collate "default", c.requested_agent_id) as role,
           coalesce(c.checkpoint_id, c.response_model, c.model) as weights
    from facts.calls c left join facts.agents a on a.episode_id = c.episode_id and a.agent_id = coalesce(c.completed_agent_id, c.requested_agent_id)
  ),
  held as (
    select p.role, o.episode_id, o.task_id, o.team_id, o.split, o.policy, o.checkpoint_id, o.weights, o.solved,
           case when cardinality(e.spoke_weights) > 1 then coalesce(
             (select string_agg(distinct s.weights, ' + ' order by s.weights) from (select weights collate "C" as weights, role from spoken where episode_id = p.episode_id) s
              where s.role is distinct from p.role), o.weights) else o.weights end as others
    from present p join traj.outcomes o using (episode_id) join facts.episodes e using (episode_id)
  ),
  tasks as (
    select task_id, coalesce(weights, '') as weights, count(solved) as known, count(*) filter (where solved) as solved
    from traj.outcomes where task_id is not null group by 1, 2
  ),
  there as (
    select role, task_id, coalesce(weights, '') as weights, count(solved) as known, count(*) filter (where solved) as solved
    from held where task_id is not null group by 1, 2, 3
  ),
  own as (
    select role, team_id, split, policy, checkpoint_id, weights, coalesce(others, '') as others, task_id,
           count(*) as episodes, count(solved) as known, count(*) filter (where solved) as solved
    from held group by 1, 2, 3, 4, 5, 6, 7, 8
  ),
  matched as (
    select w.*, t.known - coalesce(h.known, 0) as known_without, t.solved - coalesce(h.solved, 0) as solved_without
    from own w
    left join tasks t on t.task_id = w.task_id and t.weights = w.others
    left join there h on h.role = w.role and h.task_id = w.task_id and h.weights = w.others
  ),
  rated as (
    select role, team_id, split, policy, checkpoint_id, weights, case when min(others) = max(others) then min(others) end as others,
           sum(episodes)::bigint as episodes, sum(known)::bigint as known, sum(solved)::bigint as solved,
           coalesce(sum(known_without), 0)::bigint as known_without, coalesce(sum(solved_without), 0)::bigint as solved_without,
           count(*) filter (where known > 0 and known_without > 0) as tasks_compared,
           avg(case when known > 0 and known_without > 0 then solved::double precision / known - solved_without::double precision / known_without end) as difference
    from matched group by role, team_id, split, policy, checkpoint_id, weights
  ),
  splits as (
    select coalesce(split, '') as split, coalesce(weights, '') as weights, count(solved) as known, count(*) filter (where solved) as solved from traj.outcomes group by 1, 2
  ),
  there_in_split as (
    select role, coalesce(split, '') as split, coalesce(weights, '') as weights, count(solved) as known, count(*) filter (where solved) as solved from held group by 1, 2, 3
  )
  select r.role, r.episodes, r.known, r.solved, r.solved::double precision / nullif(r.known, 0) as solve_rate,
         r.known_without, r.solved_without, r.solved_without::double precision / nullif(r.known_without, 0) as solve_rate_without,
         r.tasks_compared, r.difference, r.team_id, r.split, r.policy, r.checkpoint_id, r.weights,
         s.known - coalesce(h.known, 0) as split_known_without,
         (s.solved - coalesce(h.solved, 0))::double precision / nullif(s.known - coalesce(h.known, 0), 0) as split_solve_rate_without,
         r.solved::double precision / nullif(r.known, 0) - (s.solved - coalesce(h.solved, 0))::double precision / nullif(s.known - coalesce(h.known, 0), 0) as split_difference
  from rated r
  left join splits s on s.split = coalesce(r.split, '') and s.weights = r.others
  left join there_in_split h on h.role = r.role and h.split = coalesce(r.split, '') and h.weights = r.others;
comment on view traj.role_performance is 'How often episodes with a role were solved, by team, split, policy and weights, and the episodes of the same tasks without it, in which the same weights spoke as in the other roles here. Weigh difference by tasks_compared when you average it over rows, and split_difference by known. A difference is not a cause: teams that have the role differ in more than the role. Pools: the episodes of one team with the same weights over the tasks of a split; the episodes without the role are those of every team.';
comment on column traj.role_performance.known_without is 'episodes of the same tasks, by any team with the same weights in the other roles, in which the role is absent';
comment on column traj.role_performance.difference is 'solve rate with less without, task by task, mean over tasks that have both (tasks_compared); null when there are none';
comment on column traj.role_performance.split_known_without is 'episodes of the same split without the role, with the same weights in the other roles, whatever their tasks; null where the other roles spoke with several weights';
comment on column traj.role_performance.split_difference is 'solve_rate less split_solve_rate_without. For tasks that are drawn at random and seldom twice; misleads where the role is called for harder tasks';
comment on column traj.role_performance.weights is 'that spoke in the episodes with the role. Those without it are matched on the weights of the other roles, or on these where no other role spoke';

create or replace view traj.pair_performance as
  with turns as (
    select episode_id, coalesce(completed_agent_id, requested_agent_id) as agent_id,
           lag(coalesce(completed_agent_id, requested_agent_id)) over (
             partition by episode_id order by coalesce(requested_seq, completed_seq), coalesce(requested_at, completed_at), call_id) as other_id
    from facts.calls
  ),
  met as (
    select distinct episode_id, agent_id, other_id, 'turns' as how from turns where agent_id <> other_id
    union all
    select m.episode_id, m.sender, r.receiver, 'message'
    from facts.messages m
    cross join lateral json_array_elements_text(case when json_typeof(m.receivers) = 'array' then m.receivers else '[]'::json end) as r (receiver)
    where m.sender <> r.receiver
    union all
    select episode_id, "by", decision ->> 'to_agent', 'handover' from facts.decisions
    where kind in ('handoff', 'delegate', 'return', 'select') and "by" <> decision ->> 'to_agent'
  ),
  pairs as (
    select m.episode_id, least(coalesce(a.name, a.agent_id), coalesce(b.name, b.agent_id)) as agent,
           greatest(coalesce(a.name, a.agent_id), coalesce(b.name, b.agent_id)) as other_agent,
           bool_or(m.how = 'message') as message, bool_or(m.how = 'handover') as handover, bool_or(m.how = 'turns') as turns
    from met m
    join facts.agents a on a.episode_id = m.episode_id and a.agent_id = m.agent_id
    join facts.agents b on b.episode_id = m.episode_id and b.agent_id = m.other_id
    group by 1, 2, 3
  ),
  tasks as (
    select task_id, coalesce(weights, '') as weights, count(solved) as known, count(*) filter (where solved) as solved
    from traj.outcomes where task_id is not null group by 1, 2
  ),
  held as (
    select p.agent, p.other_agent, p.message, p.handover, p.turns, o.task_id, o.team_id, o.split, o.policy, o.checkpoint_id, o.weights, o.solved
    from pairs p join traj.outcomes o using (episode_id)
  ),
  there as (
    select agent, other_agent, task_id, coalesce(weights, '') as weights, count(solved) as known, count(*) filter (where solved) as solved
    from held where task_id is not null group by 1, 2, 3, 4
  ),
  own as (
    select agent, other_agent, team_id, split, policy, checkpoint_id, weights, task_id, count(*) as episodes,
           count(solved) as known, count(*) filter (where solved) as solved,
           count(*) filter (where message) as message, count(*) filter (where handover) as handover, count(*) filter (where turns) as turns
    from held group by 1, 2, 3, 4, 5, 6, 7, 8
  ),
  matched as (
    select w.*, t.known - h.known as known_without, t.solved - h.solved as solved_without
    from own w
    left join tasks t on t.task_id = w.task_id and t.weights = coalesce(w.weights, '')
    left join there h on h.agent = w.agent and h.other_agent = w.other_agent and h.task_id = w.task_id and h.weights = coalesce(w.weights, '')
  )
  select agent, other_agent, sum(episodes)::bigint as episodes,
         sum(message)::bigint as by_message, sum(handover)::bigint as by_handover, sum(turns)::bigint as by_turns,
         sum(known)::bigint as known, sum(solved)::bigint as solved,
         (sum(solved) / nullif(sum(known), 0))::double precision as solve_rate,
         coalesce(sum(known_without), 0)::bigint as known_without, coalesce(sum(solved_without), 0)::bigint as solved_without,
         (sum(solved_without) / nullif(sum(known_without), 0))::double precision as solve_rate_without,
         count(*) filter (where known > 0 and known_without > 0) as tasks_compared,
         avg(case when known > 0 and known_without > 0 then solved::double precision / known - solved_without::double precision / known_without end) as difference,
         team_id, split, policy, checkpoint_id, weights
  from matched group by agent, other_agent, team_id, split, policy, checkpoint_id, weights;
comment on view traj.pair_performance is 'Two agents, by name, that dealt with each other: one sent the other a message, handed over to it, or spoke right after it. How often such episodes were solved, by team, split, policy and weights, and the episodes of the same tasks and weights in which the two did not. Taking turns is weak evidence where agents speak in a fixed order; a difference is not a cause. Pools: the episodes of one team with the same weights over the tasks of a split; those without the pair are those of every team.';
comment on column traj.pair_performance.difference is 'solve rate with less without, task by task and with the same weights, mean over tasks that have both (tasks_compared)';

create or replace view traj.local_rewards as
  with said as (
    select coalesce(f.episode_id, f.resolved_episode_id) as episode_id, 'recorded' as origin, f.name, null::text as method_key, f.target_kind,
           case f.target_kind when 'agent' then f.target_id end as agent_id,
           case f.target_kind when 'step' then traj.call_of(f.target_id) when 'call' then f.target_id else f.resolved_call_id end as call_id,
           case f.target_kind when 'step' then f.target_id end as step_id, f.value
    from facts.feedback f
    where f.kind = 'reward' and (f.target_kind in ('agent', 'call', 'step') or f.resolved_call_id is not null)
    union all
    select r.episode_id, 'computed', m.method, r.method_key, 'step', null, traj.call_of(r.step_id), r.step_id, r.value
    from facts.rewards r join facts.judged_methods m using (method_key) where r.step_id <> ''
  )
  select s.episode_id, o.task_id, o.team_id, s.origin, s.name, s.method_key, s.target_kind, s.step_id, s.call_id,
         a.agent_id, coalesce(a.name, a.agent_id) as agent,
         coalesce(c.completed_role, c.requested_role, a.role, a.name, a.agent_id collate "default") as role, s.value as local_reward, o.reward as team_reward, o.solved, o.group_id, o.split, o.policy, o.checkpoint_id, o.weights
  from said s
  left join traj.outcomes o on o.episode_id = s.episode_id
  left join facts.calls c on c.episode_id = s.episode_id and c.call_id = s.call_id
  left join facts.agents a on a.episode_id = s.episode_id and a.agent_id = coalesce(s.agent_id, c.completed_agent_id, c.requested_agent_id);
comment on column traj.local_rewards.weights is 'of the episode, as in traj.outcomes; so are policy and checkpoint_id';

create or replace view traj.reward_alignment as
  select origin, name, method_key, role, count(*) as targets, count(local_reward) as known,
         avg(local_reward) filter (where solved) as mean_when_solved, avg(local_reward) filter (where not solved) as mean_when_not,
         corr(local_reward, team_reward) as correlation,
         count(*) filter (where local_reward > 0 and not solved) as praised_in_failure,
         count(*) filter (where local_reward <= 0 and solved) as unpraised_in_success,
         team_id, split, policy, checkpoint_id, weights
  from traj.local_rewards group by origin, name, method_key, role, team_id, split, policy, checkpoint_id, weights;
comment on view traj.reward_alignment is 'Does pleasing the local reward please the team? By reward and role, team, split, policy and weights. A correlation near 0, or much praise in failures, says that an agent can earn without helping. Episodes with many steps weigh more. Pools: easy and hard tasks of a split, so that a correlation may be that of the tasks.';

create or replace view traj.reward_by_length as
  with measured as (
    select o.team_id, o.split, o.policy, o.checkpoint_id, o.weights, o.solved, o.reward, x.measure, x.amount
    from traj.outcomes o
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
comment on view traj.reward_by_length is 'Solve rate and mean reward by how long an episode was, in buckets that double (0, 1, 2 to 3, 4 to 7 …), for each team, split, policy, weights and measure: calls, steps, tool_calls, input_tokens, output_tokens, members. Hard tasks take longer and fail more, so that a fall with length says nothing about one task. Pools: all tasks of a split.';

create or replace view traj.cost_per_solved as
  with spent as (
    select team_id, split, policy, checkpoint_id, weights, max(team) as team, count(*) as episodes, count(distinct task_id) as tasks, count(solved) as known,
           count(*) filter (where solved) as solved, count(*) filter (where solved is not null and tokens is not null) as metered,
           count(*) filter (where solved and tokens is not null) as solved_metered,
           sum(tokens) filter (where solved is not null)::bigint as tokens,
           sum(calls) filter (where solved is not null)::bigint as calls, sum(tool_calls) filter (where solved is not null)::bigint as tool_calls
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
         split, policy, checkpoint_id, weights
  from rated
  window cheaper as (partition by split, weights order by calls_per_episode groups between unbounded preceding and 1 preceding),
         as_cheap as (partition by split, weights, calls_per_episode),
         fewer as (partition by split, weights order by tokens_per_episode groups between unbounded preceding and 1 preceding),
         as_few as (partition by split, weights, tokens_per_episode);
comment on view traj.cost_per_solved is 'What a team spends for each task it solves, by split, policy and weights, over the episodes of which it is known whether they were solved. Dominated: with the same weights and split another row solves at least as large a share for less (or more for the same), so nothing speaks for this one. Misleads where teams were given other tasks of the split: compare tasks first. The row without team_id is all episodes that name no team. Pools: all tasks of a split.';

create or replace view traj.reward_by_budget as
  select o.team_id, b.key as budget, b.value as amount, count(*) as episodes, count(o.solved) as known, count(*) filter (where o.solved) as solved,
         count(*) filter (where o.solved)::double precision / nullif(count(o.solved), 0) as solve_rate, avg(o.reward) as mean_reward,
         avg(o.tool_calls)::double precision as mean_tool_calls, avg(o.calls)::double precision as mean_calls, avg(o.tokens)::double precision as mean_tokens,
         case when b.value ~ '^\d{1,9}$' and b.key ~* 'tool_?call' then count(*) filter (where o.tool_calls >= b.value::numeric) end as used_up,
         o.split, o.policy, o.checkpoint_id, o.weights
  from facts.episodes e
  cross join lateral json_each_text(case when json_typeof(e.budgets) = 'object' then e.budgets else '{}'::json end) b
  join traj.outcomes o on o.episode_id = e.episode_id
  group by o.team_id, b.key, b.value, o.split, o.policy, o.checkpoint_id, o.weights;
comment on view traj.reward_by_budget is 'Solve rate by what an episode was allowed, for each team, split, policy and weights: one row for each limit in budgets as it was recorded, and each of its values. Rows of other limits hold the same episodes again. Episodes without recorded budgets are in no row; what was used, allowed or not, is in traj.reward_by_length. Pools: all tasks of a split, which may have been given to one budget and not to the other.';

create or replace view traj.reward_by_depth as
  with depths as (select episode_id, max(depth) as depth from facts.agents group by episode_id)
  select o.team_id, d.depth, count(*) as episodes, count(o.solved) as known, count(*) filter (where o.solved) as solved,
         count(*) filter (where o.solved)::double precision / nullif(count(o.solved), 0) as solve_rate, avg(o.reward) as mean_reward,
         avg(o.members)::double precision as mean_members, avg(o.calls)::double precision as mean_calls,
         o.split, o.policy, o.checkpoint_id, o.weights
  from traj.outcomes o left join depths d using (episode_id)
  group by o.team_id, d.depth, o.split, o.policy, o.checkpoint_id, o.weights;
comment on view traj.reward_by_depth is 'Solve rate by the depth of the deepest agent of an episode, for each team, split, policy and weights. depth is what the source says; null where no agent has one, which is not depth 0. Pools: all tasks of a split.';

-- A group of episodes is what an estimator compares: the announced one, else a task. Candidates are compared within group, agent and reward.
create or replace view traj.group_signals as
  with groups as (
    select group_id, min(task_id) as task_id, count(*) as episodes, count(*) filter (where not coalesce(closed, false)) as open,
           min(coalesce(team_id, '')) = max(coalesce(team_id, '')) as one_team, max(team_id) as team_id,
           min(coalesce(split, '')) = max(coalesce(split, '')) as one_split, max(split) as split,
           min(coalesce(policy, '')) = max(coalesce(policy, '')) as one_policy, max(policy) as policy,
           min(coalesce(weights, '')) = max(coalesce(weights, '')) as same_weights, max(checkpoint_id) as checkpoint_id, max(weights) as weights
    from traj.outcomes group by group_id
  ),
  counted as (
    select 'episodes' as kind, group_id, null::text as agent, null::text as origin, null::text as name, null::text as method_key,
           count(*) as members, count(reward) as rewarded, min(reward) as lowest, max(reward) as highest, avg(reward) as mean, stddev_samp(reward) as deviation,
           count(*) filter (where reward >= 1) as solved
    from traj.outcomes group by group_id
    union all
    select 'candidates', group_id, agent, origin, name, method_key, count(*), count(local_reward), min(local_reward), max(local_reward), avg(local_reward),
           stddev_samp(local_reward), case origin when 'recorded' then count(*) filter (where local_reward >= 1) end
    from traj.local_rewards where step_id is not null and group_id is not null group by group_id, agent, origin, name, method_key
  )
  select c.group_id, g.task_id, g.episodes, c.rewarded, c.members - c.rewarded as missing, g.open, c.lowest, c.highest, c.mean, c.deviation, c.solved,
         coalesce(c.rewarded > 1 and c.lowest < c.highest, false) as signal,
         case when c.rewarded = 0 then 'missing_reward' when c.rewarded = 1 then 'group_of_one' when c.lowest = c.highest then 'zero_variance' end as reason,
         c.kind, c.members, c.agent, c.origin, c.name, c.method_key,
         case when g.one_team then g.team_id end as team_id, case when g.one_split then g.split end as split, case when g.one_policy then g.policy end as policy,
         case when g.same_weights then g.checkpoint_id end as checkpoint_id, case when g.same_weights then g.weights end as weights,
         not (g.one_team and g.same_weights) as mixed
  from counted c join groups g using (group_id);
comment on view traj.group_signals is 'Does a group tell an estimator that compares its members anything? kind episodes: over recorded episode rewards. kind candidates: over the rewards of the steps of one agent in a group, for each recorded or computed reward; count one kind and one reward at a time. A group without signal trains nothing, with one exception: GRPO as verl has it gives a group of one its reward itself as the advantage. Pools: what the estimators pool, which is everything in the group; mixed says where that is several teams or weights.';
comment on column traj.group_signals.episodes is 'of the group, also where candidates are compared';
comment on column traj.group_signals.kind is 'episodes or candidates: what is compared';
comment on column traj.group_signals.members is 'how many are compared, with and without a reward';
comment on column traj.group_signals.missing is 'members without a reward; also in a group with a signal they get no advantage';
comment on column traj.group_signals.solved is 'members with a reward of 1 or more; null for computed rewards, whose scale is their own';
comment on column traj.group_signals.mixed is 'several teams or several weights played it: then team_id or weights are null, and a difference within the group may be theirs';

create or replace view traj.failure_modes as
  with noted as (
    select f.*, o.split, o.policy, o.checkpoint_id, o.weights,
           row_number() over (partition by f.taxonomy, f.episode_id, o.team_id order by f.key, f.feedback_id) = 1 as first_of_episode
    from traj.failures f left join traj.outcomes o on o.episode_id = f.episode_id
  )
  select taxonomy, taxonomy_version, mode, title, category, team_id, role, count(*) as failures, count(distinct episode_id) as episodes,
         count(distinct episode_id)::double precision
           / nullif(sum(count(*) filter (where first_of_episode and episode_id is not null)) over (partition by taxonomy, team_id, split, policy, checkpoint_id, weights), 0)::double precision as share_of_episodes,
         count(*) filter (where solved) as in_solved, split, policy, checkpoint_id, weights
  from noted group by taxonomy, taxonomy_version, mode, title, category, team_id, role, split, policy, checkpoint_id, weights;
comment on view traj.failure_modes is 'How often each mode was noted, by team and role of whoever it was noted about, split, policy and weights. Shares are of the episodes of that team, split and weights that have any failure of that taxonomy, not of all episodes, and do not add up to 1: an episode can have several. Pools: all annotators and all tasks of a split.';

-- A single agent with weights a is compared with each team in which a spoke too, whatever else spoke there.
create or replace view traj.team_vs_single as
  with tried as (
    select o.task_id, o.team_id, o.split, o.policy, o.checkpoint_id, o.weights, coalesce(e.spoke_weights, '{}') as spoke, o.members, o.solved, o.tokens, o.calls
    from traj.outcomes o join facts.episodes e using (episode_id) where o.task_id is not null
  ),
  singles as (
    select task_id, spoke, max(split) as split, max(weights) as weights, count(*) as episodes, count(solved) as known, count(*) filter (where solved) as solved,
           avg(tokens) filter (where solved is not null) as tokens, avg(calls) filter (where solved is not null) as calls
    from tried where members = 1 group by task_id, spoke
  ),
  teams as (
    select task_id, spoke, team_id, split, policy, checkpoint_id, weights, count(*) as episodes, count(solved) as known, count(*) filter (where solved) as solved,
           avg(tokens) filter (where solved is not null) as tokens, avg(calls) filter (where solved is not null) as calls
    from tried where members > 1 group by task_id, spoke, team_id, split, policy, checkpoint_id, weights
  ),
  unnamed as (
    select task_id, count(*) as episodes from tried where members is null group by task_id
  ),
  met as (
    select t.task_id, t.split, t.team_id, t.policy, t.checkpoint_id, t.weights, t.episodes as team_episodes, t.known as team_known, t.solved as team_solved,
           t.calls as team_calls, t.tokens as team_tokens, s.weights as single_weights, coalesce(s.episodes, 0) as single_episodes,
           coalesce(s.known, 0) as single_known, coalesce(s.solved, 0) as single_solved, s.calls as single_calls, s.tokens as single_tokens
    from teams t left join singles s on s.task_id = t.task_id and (s.spoke = t.spoke or s.spoke <> '{}' and s.spoke <@ t.spoke)
    union all
    select s.task_id, s.split, null, null, null, null, 0, 0, 0, null, null, s.weights, s.episodes, s.known, s.solved, s.calls, s.tokens
    from singles s
    where not exists (select from teams t where t.task_id = s.task_id and (s.spoke = t.spoke or s.spoke <> '{}' and s.spoke <@ t.spoke))
    union all
    select task_id, max(split), null, null, null, null, 0, 0, 0, null, null, null, 0, 0, 0, null, null from tried group by task_id having count(members) = 0
  )
  select m.task_id, m.single_episodes, m.single_known, m.single_solved, m.single_solved::double precision / nullif(m.single_known, 0) as single_rate,
         m.team_episodes, m.team_known, m.team_solved, m.team_solved::double precision / nullif(m.team_known, 0) as team_rate,
         m.team_solved::double precision / nullif(m.team_known, 0) - m.single_solved::double precision / nullif(m.single_known, 0) as difference,
         m.single_calls::double precision as single_calls, m.team_calls::double precision as team_calls,
         m.single_tokens::double precision as single_tokens, m.team_tokens::double precision as team_tokens, coalesce(u.episodes, 0) as unknown_size,
         m.team_id, m.split, m.policy, m.checkpoint_id, m.weights, m.single_weights
  from met m left join unnamed u using (task_id);
comment on view traj.team_vs_single is 'Task by task, the episodes of one team with several members against episodes with one, where the weights of the single agent spoke in the team too. A row for each task, team and its weights, and weights of a single agent; one without a match has nulls on the other side. Average the difference over tasks that have both, for one team_id and one pair of weights at a time; a gain that costs many more calls is to be compared with as many attempts of the single one (traj.pass_at_k). Pools: all single agents with those weights, whichever team_id they had.';
comment on column traj.team_vs_single.difference is 'solve rate of the team less that of single agents; null unless both are known for the task';
comment on column traj.team_vs_single.unknown_size is 'episodes of the task in which no member was named';
comment on column traj.team_vs_single.weights is 'of the team; null where no team with the weights of the single agent tried the task';
comment on column traj.team_vs_single.single_weights is 'of the single agents; equal to weights, or a part of them';
