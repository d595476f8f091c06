--! the views that answer an analyst's questions
-- Each view answers one question over the tables and can be filtered further. What counts as solved is decided in traj.outcomes alone.
-- A rate over nothing, and what nobody recorded, is null. docs/analysis.md walks through them.

-- The call of a step id, which is call/candidate; null for null.
create function traj.call_of(step_id text) returns text language sql immutable parallel safe
return left(rtrim(step_id, '0123456789'), -1);
comment on function traj.call_of(text) is 'The call_id in a step_id.';

-- pass@k is a product of ratios near 1, which sums of logarithms round and factorials overflow.
create aggregate traj.product(double precision) (
  sfunc = pg_catalog.float8mul, stype = double precision, initcond = '1', parallel = safe
);
comment on aggregate traj.product(double precision) is 'Product of the numbers, 1 for none.';

create function traj.plain_answer(answer text) returns text language sql immutable parallel safe
return nullif(regexp_replace(btrim(regexp_replace(regexp_replace(btrim(answer, E' \t\r\n'), '\s*\.$', ''), '^\$|\$$', '', 'g')), '\s+', ' ', 'g'), '');
comment on function traj.plain_answer(text) is 'An answer without surrounding space, final full stop, dollar signs and doubled spaces; null for an empty one.';

create view traj.outcomes as
  select e.episode_id, e.task_id, coalesce(e.group_id, e.task_id, e.episode_id) as group_id, e.team_id, t.name as team,
         e.outcome, e.reward,
         case when e.reward is not null then e.reward >= 1
              when e.outcome = 'success' then true
              when e.outcome in ('failure', 'timeout') then false end as solved,
         case when e.reward is not null then 'reward'
              when e.outcome in ('success', 'failure', 'timeout') then 'outcome' end as solved_by,
         nullif(e.agents, 0) as members, e.calls, e.steps, e.tool_calls, e.input_tokens, e.output_tokens,
         e.input_tokens + e.output_tokens as tokens, e.closed
  from facts.episodes e left join facts.teams t using (team_id);
comment on view traj.outcomes is 'What every view below means by solved: a recorded reward decides (1 or more), where there is none the outcome (success, or failure and timeout). Error, aborted, unknown and unfinished episodes without a reward are null: neither solved nor failed. Misleads where rewards have another scale than 0 to 1.';
comment on column traj.outcomes.group_id is 'what it is compared with: the announced group, else its task, else the episode alone';
comment on column traj.outcomes.solved_by is 'reward or outcome: which of the two decided';
comment on column traj.outcomes.members is 'agents that were named in the episode; null when none was';
comment on column traj.outcomes.tokens is 'null unless both sides were counted; calls without a count are missing from the sum';

create view traj.pass_at_k as
  with counted as (
    select task_id, team_id, count(*) as episodes, count(solved) as n, count(*) filter (where solved) as c
    from traj.outcomes where task_id is not null group by task_id, team_id
  )
  select q.task_id, q.team_id, k.k::integer as k, q.n, q.c, q.episodes - q.n as unknown,
         case when k.k is not null then 1 - traj.product(greatest(q.n - q.c - k.k + 1, 0)::double precision / (q.n - k.k + 1)) over w end as pass_at_k,
         case when k.k is not null then traj.product(greatest(q.c - k.k + 1, 0)::double precision / (q.n - k.k + 1)) over w end as pass_all_k
  from counted q left join lateral generate_series(1, q.n) as k (k) on true
  window w as (partition by q.task_id, q.team_id order by k.k);
comment on view traj.pass_at_k is 'For each task and team, and k up to the number n of its episodes: the chance that at least one of k episodes drawn from them solves it, 1 - C(n-c,k)/C(n,k), and that all k do. Average over tasks, not over rows, and only over tasks that have the same k. Misleads when many episodes are unknown: they are left out, not counted as failures.';
comment on column traj.pass_at_k.k is 'null, with both chances, where no episode of the task is known to be solved or not';
comment on column traj.pass_at_k.c is 'solved among n';
comment on column traj.pass_at_k.unknown is 'episodes left out: neither solved nor failed';
comment on column traj.pass_at_k.pass_all_k is 'C(c,k)/C(n,k): how reliable the team is';

create view traj.agreement as
  with given as (
    select o.task_id, o.team_id, o.episode_id, o.solved, traj.plain_answer(e.answer) as answer
    from traj.outcomes o join facts.episodes e using (episode_id)
    where o.task_id is not null and e.finished_version is not null
  ),
  counted as (
    select task_id, team_id, answer, count(*) as votes, min(episode_id) as first, count(solved) as known, count(*) filter (where solved) as solved
    from given group by task_id, team_id, answer
  ),
  ranked as (
    select *, row_number() over (w order by answer is null, votes desc, first) as place,
           sum(votes) over w as episodes, sum(votes) filter (where answer is not null) over w as answered,
           count(answer) over w as distinct_answers,
           answer is not null and votes = lead(votes) over (w order by answer is null, votes desc, first)
             and lead(answer) over (w order by answer is null, votes desc, first) is not null as tied
    from counted window w as (partition by task_id, team_id)
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
         case when r.answer is not null then r.solved::double precision / nullif(r.known, 0) end as majority_solve_rate
  from ranked r
  left join facts.tasks k on k.task_id = r.task_id
  cross join lateral (select case when json_typeof(k.ground_truth) in ('string', 'number', 'boolean') then traj.plain_answer(k.ground_truth #>> '{}') end as truth) t
  where r.place = 1;
comment on view traj.agreement is 'How far the finished episodes of a task and team give the same answer. Misleads where answers are long texts, which never agree word for word, and where a team agrees on a wrong answer: read majority_right beside it.';
comment on column traj.agreement.answered is 'episodes with an answer; the others count as votes for nothing';
comment on column traj.agreement.majority is 'the most frequent answer, the one of the lowest episode id where two are equally frequent; null when nobody answered';
comment on column traj.agreement.agreement is 'its share of all finished episodes, null when nobody answered';
comment on column traj.agreement.tied is 'another answer was given as often';
comment on column traj.agreement.majority_right is 'equals the ground truth as text or as a number; null where that is unknown or not a plain value. Letters of a multiple choice are compared by correctness_filter';
comment on column traj.agreement.majority_solve_rate is 'share of the episodes with that answer that are solved, of those where it is known';

create view traj.role_performance as
  with present as (
    select episode_id, role from facts.agents where role is not null
    union
    select episode_id, coalesce(completed_role, requested_role) from facts.calls where coalesce(completed_role, requested_role) is not null
  ),
  tasks as (
    select task_id, count(*) as episodes, count(solved) as known, count(*) filter (where solved) as solved from traj.outcomes group by task_id
  ),
  own as (
    select p.role, o.task_id, count(*) as episodes, count(o.solved) as known, count(*) filter (where o.solved) as solved
    from present p join traj.outcomes o using (episode_id) group by p.role, o.task_id
  )
  select w.role, sum(w.episodes)::bigint as episodes, sum(w.known)::bigint as known, sum(w.solved)::bigint as solved,
         (sum(w.solved) / nullif(sum(w.known), 0))::double precision as solve_rate,
         coalesce(sum(t.known - w.known), 0)::bigint as known_without, coalesce(sum(t.solved - w.solved), 0)::bigint as solved_without,
         (sum(t.solved - w.solved) / nullif(sum(t.known - w.known), 0))::double precision as solve_rate_without,
         count(*) filter (where w.known > 0 and t.known > w.known) as tasks_compared,
         avg(case when w.known > 0 and t.known > w.known then w.solved::double precision / w.known - (t.solved - w.solved)::double precision / (t.known - w.known) end) as difference
  from own w left join tasks t using (task_id)
  group by w.role;
comment on view traj.role_performance is 'How often episodes with a role were solved, and the episodes of the same tasks without it. A difference is not a cause: teams that have the role differ in more than the role.';
comment on column traj.role_performance.known is 'episodes of which it is known whether they were solved; the rates are over these';
comment on column traj.role_performance.known_without is 'episodes of the same tasks, by any team, in which the role is absent';
comment on column traj.role_performance.difference is 'solve rate with less without, task by task, mean over tasks that have both (tasks_compared); null when there are none';

create view traj.pair_performance as
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
    select task_id, count(solved) as known, count(*) filter (where solved) as solved from traj.outcomes group by task_id
  ),
  own as (
    select p.agent, p.other_agent, o.task_id, count(*) as episodes, count(o.solved) as known, count(*) filter (where o.solved) as solved,
           count(*) filter (where p.message) as message, count(*) filter (where p.handover) as handover, count(*) filter (where p.turns) as turns
    from pairs p join traj.outcomes o using (episode_id) group by 1, 2, 3
  )
  select w.agent, w.other_agent, sum(w.episodes)::bigint as episodes,
         sum(w.message)::bigint as by_message, sum(w.handover)::bigint as by_handover, sum(w.turns)::bigint as by_turns,
         sum(w.known)::bigint as known, sum(w.solved)::bigint as solved,
         (sum(w.solved) / nullif(sum(w.known), 0))::double precision as solve_rate,
         coalesce(sum(t.known - w.known), 0)::bigint as known_without, coalesce(sum(t.solved - w.solved), 0)::bigint as solved_without,
         (sum(t.solved - w.solved) / nullif(sum(t.known - w.known), 0))::double precision as solve_rate_without,
         count(*) filter (where w.known > 0 and t.known > w.known) as tasks_compared,
         avg(case when w.known > 0 and t.known > w.known then w.solved::double precision / w.known - (t.solved - w.solved)::double precision / (t.known - w.known) end) as difference
  from own w left join tasks t using (task_id)
  group by w.agent, w.other_agent;
comment on view traj.pair_performance is 'Two agents, by name, that dealt with each other: one sent the other a message, handed over to it, or spoke right after it. How often such episodes were solved, and the episodes of the same tasks in which the two did not. Taking turns is weak evidence where agents speak in a fixed order; a difference is not a cause.';
comment on column traj.pair_performance.agent is 'the name that sorts first; the pair has no direction';
comment on column traj.pair_performance.by_turns is 'episodes in which one spoke right after the other; an episode can count under message and handover too';
comment on column traj.pair_performance.difference is 'solve rate with less without, task by task, mean over tasks that have both (tasks_compared)';

create view traj.local_rewards as
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
         a.agent_id, coalesce(a.name, a.agent_id) as agent, coalesce(c.completed_role, c.requested_role, a.role) as role,
         s.value as local_reward, o.reward as team_reward, o.solved
  from said s
  left join traj.outcomes o on o.episode_id = s.episode_id
  left join facts.calls c on c.episode_id = s.episode_id and c.call_id = s.call_id
  left join facts.agents a on a.episode_id = s.episode_id and a.agent_id = coalesce(s.agent_id, c.completed_agent_id, c.requested_agent_id);
comment on view traj.local_rewards is 'What an agent, call or step was given, beside what its episode was given: recorded rewards, and computed ones of reward methods (choose one by name and method_key before averaging). Scales may differ: compare orders, not sizes.';
comment on column traj.local_rewards.origin is 'recorded: feedback of kind reward; computed: a row of traj.rewards';

create view traj.reward_alignment as
  select origin, name, method_key, role, count(*) as targets, count(local_reward) as known,
         avg(local_reward) filter (where solved) as mean_when_solved, avg(local_reward) filter (where not solved) as mean_when_not,
         corr(local_reward, team_reward) as correlation,
         count(*) filter (where local_reward > 0 and not solved) as praised_in_failure,
         count(*) filter (where local_reward <= 0 and solved) as unpraised_in_success
  from traj.local_rewards group by origin, name, method_key, role;
comment on view traj.reward_alignment is 'Does pleasing the local reward please the team? By reward and role. A correlation near 0, or much praise in failures, says that an agent can earn without helping. Episodes with many steps weigh more.';
comment on column traj.reward_alignment.correlation is 'of local and team reward over targets that have both; null when either never varies';

create view traj.corrections as
  with feedback as (
    select distinct on (f.episode_id, f.name, f.target_id) f.episode_id, f.name, f.target_id as step_id,
           case when f.kind = 'reward' and f.value >= 1 then true
                when f.kind = 'reward' and f.value <= 0 then false
                when f.kind <> 'reward' and json_typeof(f.value_json) = 'boolean' then f.value = 1
                when lower(f.label) in ('correct', 'right') then true
                when lower(f.label) in ('incorrect', 'wrong') then false end as is_right
    from facts.feedback f
    where f.target_kind = 'step' and f.kind in ('reward', 'score', 'label')
    order by f.episode_id, f.name, f.target_id, f.version desc
  ),
  said as (
    select episode_id, 'feedback' as basis, name, step_id, is_right from feedback
    union all
    select v.episode_id, 'verdict', v.method_key, v.step_id, v.keep
    from facts.verdicts v join facts.judged_methods m using (method_key)
    where v.step_id <> '' and m.method in ('correctness_filter', 'public_tests_filter')
    union all
    select episode_id, 'execution', name, program_step_id, case when not bool_and(coalesce(program_valid, true) and coalesce(pass, true)) then false when bool_and(pass is not null) then true end
    from traj.executions where ground_truth and program_step_id is not null
    group by episode_id, name, program_step_id
  ),
  judged as (
    select s.episode_id, s.basis, s.name, p.call_id,
           case when count(*) = 1 then min(s.step_id) else min(s.step_id) filter (where p.chosen) end as step_id,
           case when count(*) = 1 then bool_or(s.is_right) else bool_or(s.is_right) filter (where p.chosen) end as is_right,
           case when count(*) = 1 then min(p.parent_step_id) else min(p.parent_step_id) filter (where p.chosen) end as parent_step_id
    from said s
    join facts.steps p on p.episode_id = s.episode_id and p.call_id || '/' || p.candidate = s.step_id
    group by s.episode_id, s.basis, s.name, p.call_id
  ),
  spoken as (
    select episode_id, call_id, coalesce(completed_agent_id, requested_agent_id) as agent_id, coalesce(completed_role, requested_role) as role,
           row_number() over w as place,
           lag(coalesce(completed_agent_id, requested_agent_id)) over w as before_id
    from facts.calls where episode_id in (select episode_id from said)
    window w as (partition by episode_id order by coalesce(requested_seq, completed_seq), coalesce(requested_at, completed_at), call_id)
  ),
  -- The other agent that spoke last before a call, and where: carried along its place, since the largest place is the last.
  runs as (
    select *, max(case when agent_id is distinct from before_id and place > 1 then array[lpad((place - 1)::text, 10, '0'), before_id] end)
                over (partition by episode_id order by place) as other
    from spoken
  ),
  states as (
    select j.*, r.agent_id, r.role, r.place, r.other,
           lag(j.step_id) over own as own_step_id, lag(j.is_right) over own as own_right, lag(r.place) over own as own_place,
           lag(j.step_id) over team as team_step_id, lag(j.is_right) over team as team_right, lag(r.place) over team as team_place
    from judged j join runs r on r.episode_id = j.episode_id and r.call_id = j.call_id
    where j.is_right is not null
    window own as (partition by j.episode_id, j.basis, j.name, r.agent_id order by r.place),
           team as (partition by j.episode_id, j.basis, j.name order by r.place)
  ),
  compared as (
    select s.*, case when p.step_id is not null then 'revision' when s.agent_id is not null and s.own_step_id is not null then 'own' else 'team' end as compared_with,
           case when p.step_id is not null then p.step_id when s.agent_id is not null and s.own_step_id is not null then s.own_step_id else s.team_step_id end as before_step_id,
           case when p.step_id is not null then p.is_right when s.agent_id is not null and s.own_step_id is not null then s.own_right else s.team_right end as was_right,
           case when p.step_id is not null then p.place when s.agent_id is not null and s.own_step_id is not null then s.own_place else s.team_place end as before_place
    from states s
    left join states p on p.episode_id = s.episode_id and p.basis = s.basis and p.name = s.name and p.step_id = s.parent_step_id
  )
  select c.episode_id, o.task_id, o.team_id, c.basis, c.name, c.step_id, c.agent_id, coalesce(a.name, c.agent_id) as agent,
         coalesce(c.role, a.role) as role, c.compared_with, c.before_step_id, c.was_right, c.is_right,
         case when c.was_right = c.is_right then case when c.is_right then 'stayed right' else 'stayed wrong' end
              when c.is_right then 'corrected' else 'spoiled' end as change,
         b.agent_id as after_agent_id, coalesce(b.name, b.agent_id) as after_agent, b.role as after_role, o.solved
  from compared c
  left join traj.outcomes o on o.episode_id = c.episode_id
  left join facts.agents a on a.episode_id = c.episode_id and a.agent_id = c.agent_id
  left join facts.agents b on b.episode_id = c.episode_id and b.agent_id = c.other[2] and c.other[1]::bigint >= c.before_place
  where c.before_step_id is not null;
comment on view traj.corrections is 'A step that something said was right or wrong, beside an earlier one by the same measure: corrected (wrong, then right), spoiled (right, then wrong), or stayed. Right and wrong are said by feedback on the step (a reward of 1 or more or of 0 or less, a score or label that is a boolean, a label correct, right, incorrect, wrong), by the step verdicts of correctness_filter and public_tests_filter, or by all ground-truth tests of an execution matrix. Steps that nobody judged are passed over; of several candidates of a call only a chosen one counts. Rows compared with team mislead where agents answer side by side and nobody revises.';
comment on column traj.corrections.basis is 'feedback, verdict or execution; name is the feedback, the method_key or the matrix. Count one of them at a time';
comment on column traj.corrections.compared_with is 'revision: the step it says it revises (parent_step_id); own: the same agent''s last judged step; team: else the last judged step of anyone';
comment on column traj.corrections.after_agent is 'the last other agent whose call lies between the two, the earlier step included; null when nobody else spoke';

create view traj.credit_spread as
  with scales as (
    select c.method_key, nullif(avg(abs(c.value)), 0) as scale
    from facts.credits c join facts.judged_methods m using (method_key) where m.kind = 'credit' group by c.method_key
  )
  select c.episode_id, c.step_id, coalesce(e.group_id, e.task_id, c.episode_id) as group_id, c.methods, c.silent, c.positive, c.negative,
         c.positive > 0 and c.negative > 0 as signs_differ, c.spread
  from (
    select c.episode_id, c.step_id, count(c.value) as methods, count(*) - count(c.value) as silent,
           count(*) filter (where c.value > 0) as positive, count(*) filter (where c.value < 0) as negative,
           max(c.value / s.scale) - min(c.value / s.scale) as spread
    from facts.credits c join scales s using (method_key) group by c.episode_id, c.step_id
  ) c left join facts.episodes e using (episode_id);
comment on view traj.credit_spread is 'How far the estimators of one step are apart; their numbers are in traj.credits. A credit of 0 is no sign: it neither agrees nor differs. Read reason in traj.credits where one is silent.';
comment on column traj.credit_spread.silent is 'methods that have a row and no number for the step';
comment on column traj.credit_spread.spread is 'largest less smallest, each method divided by the mean of its absolute credits over the whole database; null for fewer than one number';

create view traj.credit_ranks as
  select coalesce(e.group_id, e.task_id, c.episode_id) as group_id, c.episode_id, c.step_id, c.method_key, c.value,
         rank() over (partition by coalesce(e.group_id, e.task_id, c.episode_id), c.method_key order by c.value)
           + (count(*) over (partition by coalesce(e.group_id, e.task_id, c.episode_id), c.method_key, c.value) - 1) / 2.0::double precision as place
  from facts.credits c join facts.judged_methods m using (method_key) left join facts.episodes e using (episode_id)
  where c.value is not null and m.kind = 'credit';
comment on view traj.credit_ranks is 'The place of each step among the steps of its group by one estimator, 1 for the lowest credit. The correlation of two methods'' places is Spearman''s. Filter by method_key or group_id: over everything it sorts every credit there is.';
comment on column traj.credit_ranks.place is 'equal credits share their mean place';

create view traj.credit_pairs as
  select coalesce(e.group_id, e.task_id, a.episode_id) as group_id, a.method_key, b.method_key as other_method_key, count(*) as steps,
         count(*) filter (where a.value > 0 and b.value > 0 or a.value < 0 and b.value < 0) as same_sign,
         count(*) filter (where a.value > 0 and b.value < 0 or a.value < 0 and b.value > 0) as opposite_sign,
         count(*) filter (where (a.value = 0) <> (b.value = 0)) as zero_in_one,
         corr(a.value, b.value) as correlation, avg(abs(a.value)) as size, avg(abs(b.value)) as other_size
  from facts.credits a
  join facts.credits b on b.episode_id = a.episode_id and b.step_id = a.step_id and b.method_key > a.method_key
  join facts.judged_methods ma on ma.method_key = a.method_key and ma.kind = 'credit'
  join facts.judged_methods mb on mb.method_key = b.method_key and mb.kind = 'credit'
  left join facts.episodes e on e.episode_id = a.episode_id
  where a.value is not null and b.value is not null
  group by 1, 2, 3;
comment on view traj.credit_pairs is 'Two estimators over the steps of one group. Within a group many estimators are the same numbers scaled, so that a correlation of 1 is expected; what tells them apart is their size, between groups and between agents. Filter by both method keys on a large database.';
comment on column traj.credit_pairs.zero_in_one is 'steps that one estimator gives nothing and the other something';
comment on column traj.credit_pairs.correlation is 'Pearson; null where either gives all steps of the group the same';
comment on column traj.credit_pairs.size is 'mean absolute credit by method_key: how much weight the group gets; other_size by the other';

create view traj.reward_by_length as
  with measured as (
    select o.team_id, o.solved, o.reward, x.measure, x.amount
    from traj.outcomes o
    cross join lateral (values ('calls', o.calls::bigint), ('steps', o.steps::bigint), ('tool_calls', o.tool_calls::bigint),
      ('input_tokens', o.input_tokens), ('output_tokens', o.output_tokens), ('members', o.members::bigint)) as x (measure, amount)
  ),
  bucketed as (
    select *, case when amount > 0 then 1::bigint << (length(ltrim(amount::bit(64)::text, '0')) - 1) when amount = 0 then 0 end as at_least from measured
  )
  select team_id, measure, at_least, case when at_least = 0 then 1 else at_least * 2 end as below, count(*) as episodes,
         count(solved) as known, count(*) filter (where solved) as solved,
         count(*) filter (where solved)::double precision / nullif(count(solved), 0) as solve_rate, avg(reward) as mean_reward
  from bucketed group by team_id, measure, at_least;
comment on view traj.reward_by_length is 'Solve rate and mean reward by how long an episode was, in buckets that double (0, 1, 2 to 3, 4 to 7 …), for each team and measure: calls, steps, tool_calls, input_tokens, output_tokens, members. Hard tasks take longer and fail more, so that a fall with length says nothing about one task.';
comment on column traj.reward_by_length.at_least is 'null: the episodes whose length was not recorded';

create view traj.cost_per_solved as
  with spent as (
    select team_id, max(team) as team, count(*) as episodes, count(distinct task_id) as tasks, count(solved) as known,
           count(*) filter (where solved) as solved, count(*) filter (where solved is not null and tokens is not null) as metered,
           count(*) filter (where solved and tokens is not null) as solved_metered,
           sum(tokens) filter (where solved is not null)::bigint as tokens,
           sum(calls) filter (where solved is not null)::bigint as calls, sum(tool_calls) filter (where solved is not null)::bigint as tool_calls
    from traj.outcomes group by team_id
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
                or max(case when tokens_per_episode is not null then solve_rate end) over as_few > solve_rate end as dominated_on_tokens
  from rated
  window cheaper as (order by calls_per_episode groups between unbounded preceding and 1 preceding),
         as_cheap as (partition by calls_per_episode),
         fewer as (order by tokens_per_episode groups between unbounded preceding and 1 preceding),
         as_few as (partition by tokens_per_episode);
comment on view traj.cost_per_solved is 'What a team spends for each task it solves, over the episodes of which it is known whether they were solved. Dominated: another team solves at least as large a share for less (or more for the same), so nothing speaks for this one. Misleads where teams were given other tasks: compare tasks first. The row without team_id is all episodes that name no team.';
comment on column traj.cost_per_solved.metered is 'known episodes with token counts; tokens are summed over these only';
comment on column traj.cost_per_solved.calls_per_solved is 'calls of solved and failed episodes alike, for each solved one; null when none was solved';
comment on column traj.cost_per_solved.dominated_on_tokens is 'null unless every known episode of the team has token counts';

create view traj.reward_by_budget as
  select o.team_id, b.key as budget, b.value as amount, count(*) as episodes, count(o.solved) as known, count(*) filter (where o.solved) as solved,
         count(*) filter (where o.solved)::double precision / nullif(count(o.solved), 0) as solve_rate, avg(o.reward) as mean_reward,
         avg(o.tool_calls)::double precision as mean_tool_calls, avg(o.calls)::double precision as mean_calls, avg(o.tokens)::double precision as mean_tokens,
         case when b.value ~ '^\d{1,9}$' and b.key ~* 'tool_?call' then count(*) filter (where o.tool_calls >= b.value::numeric) end as used_up
  from facts.episodes e
  cross join lateral json_each_text(case when json_typeof(e.budgets) = 'object' then e.budgets else '{}'::json end) b
  join traj.outcomes o on o.episode_id = e.episode_id
  group by o.team_id, b.key, b.value;
comment on view traj.reward_by_budget is 'Solve rate by what an episode was allowed: one row for each limit in budgets as it was recorded, and each of its values. Rows of other limits hold the same episodes again. Episodes without recorded budgets are in no row; what was used, allowed or not, is in traj.reward_by_length.';
comment on column traj.reward_by_budget.used_up is 'episodes that made as many tool calls as they were allowed; null for limits on something else';

create view traj.reward_by_depth as
  with depths as (select episode_id, max(depth) as depth from facts.agents group by episode_id)
  select o.team_id, d.depth, count(*) as episodes, count(o.solved) as known, count(*) filter (where o.solved) as solved,
         count(*) filter (where o.solved)::double precision / nullif(count(o.solved), 0) as solve_rate, avg(o.reward) as mean_reward,
         avg(o.members)::double precision as mean_members, avg(o.calls)::double precision as mean_calls
  from traj.outcomes o left join depths d using (episode_id)
  group by o.team_id, d.depth;
comment on view traj.reward_by_depth is 'Solve rate by the depth of the deepest agent of an episode. depth is what the source says; null where no agent has one, which is not depth 0.';

create view traj.group_signals as
  with counted as (
    select group_id, min(task_id) as task_id, count(*) as episodes, count(reward) as rewarded, min(reward) as lowest, max(reward) as highest,
           avg(reward) as mean, stddev_samp(reward) as deviation, count(*) filter (where reward >= 1) as solved, count(*) filter (where not coalesce(closed, false)) as open
    from traj.outcomes group by group_id
  )
  select group_id, task_id, episodes, rewarded, episodes - rewarded as missing, open, lowest, highest, mean, deviation, solved,
         coalesce(rewarded > 1 and lowest < highest, false) as signal,
         case when rewarded = 0 then 'missing_reward' when rewarded = 1 then 'group_of_one' when lowest = highest then 'zero_variance' end as reason
  from counted;
comment on view traj.group_signals is 'Does a group tell an estimator that compares its members anything? Over recorded episode rewards. A group without signal trains nothing, with one exception: GRPO as verl has it gives a group of one its reward itself as the advantage. Computed rewards of steps can differ where these do not.';
comment on column traj.group_signals.reason is 'why there is no signal, in the words of traj.credits: missing_reward (none has one), group_of_one (one has), zero_variance (all equal)';
comment on column traj.group_signals.missing is 'episodes without a reward; also in a group with a signal they get no advantage';
comment on column traj.group_signals.deviation is 'sample standard deviation (divisor n - 1)';

create view traj.agent_shares as
  with spoken as (
    select c.episode_id, coalesce(c.completed_agent_id, c.requested_agent_id) as agent_id, count(*) as calls,
           case when count(*) = count(c.output_tokens) then sum(c.output_tokens) end as output_tokens
    from facts.calls c group by 1, 2
  ),
  said as (
    select c.episode_id, coalesce(c.completed_agent_id, c.requested_agent_id) as agent_id, count(*) as steps
    from facts.steps s join facts.calls c using (episode_id, call_id) group by 1, 2
  ),
  used as not materialized (
    select t.episode_id, coalesce(t.agent_id, c.completed_agent_id, c.requested_agent_id) as agent_id, count(*) as tool_calls
    from facts.tool_calls t left join facts.calls c on c.episode_id = t.episode_id and c.call_id = t.call_id
    where t.called_version is not null group by 1, 2
  ),
  members as (
    select episode_id, agent_id from facts.agents
    union select episode_id, null from facts.calls where completed_agent_id is null and requested_agent_id is null
    union select episode_id, null from used where agent_id is null
  ),
  influence as (
    select k.episode_id, coalesce(c.completed_agent_id, c.requested_agent_id) as agent_id,
           avg(k.value) filter (where m.method = 'causal_influence') as influence, sum(k.value) filter (where m.method = 'dylan_importance') as importance
    from facts.credits k join facts.judged_methods m using (method_key)
    join facts.calls c on c.episode_id = k.episode_id and c.call_id = traj.call_of(k.step_id)
    where m.method in ('causal_influence', 'dylan_importance') group by 1, 2
  ),
  counted as (
    select m.episode_id, m.agent_id, coalesce(p.calls, 0) as calls, coalesce(s.steps, 0) as steps, coalesce(u.tool_calls, 0) as tool_calls,
           case when p.calls is null then 0 else p.output_tokens end as output_tokens
    from members m
    left join spoken p on p.episode_id = m.episode_id and coalesce(p.agent_id, '') = coalesce(m.agent_id, '')
    left join said s on s.episode_id = m.episode_id and coalesce(s.agent_id, '') = coalesce(m.agent_id, '')
    left join used u on u.episode_id = m.episode_id and coalesce(u.agent_id, '') = coalesce(m.agent_id, '')
  )
  select c.episode_id, o.task_id, o.team_id, c.agent_id, coalesce(a.name, c.agent_id) as agent, a.role, count(c.agent_id) over w as members,
         c.calls, c.steps, c.tool_calls, c.output_tokens::bigint as output_tokens,
         c.steps::double precision / nullif(sum(c.steps) over w, 0)::double precision as share_of_steps,
         c.tool_calls::double precision / nullif(sum(c.tool_calls) over w, 0)::double precision as share_of_tool_calls,
         case when bool_and(c.output_tokens is not null) over w then (c.output_tokens / nullif(sum(c.output_tokens) over w, 0))::double precision end as share_of_tokens,
         count(c.agent_id) over w * (c.steps::double precision / nullif(sum(c.steps) over w, 0)::double precision) as of_fair_share,
         i.influence, i.importance, o.solved
  from counted c
  left join facts.agents a on a.episode_id = c.episode_id and a.agent_id = c.agent_id
  left join influence i on i.episode_id = c.episode_id and i.agent_id = c.agent_id
  left join traj.outcomes o on o.episode_id = c.episode_id
  window w as (partition by c.episode_id);
comment on view traj.agent_shares is 'What each member of an episode did of all that was done: lazy agents have a small share and, where it was judged, little influence. Saying little is not doing little: a reviewer who agrees in a word is not lazy, an agent of many steps that nobody heeds is. agent_id is null for what no agent is named for.';
comment on column traj.agent_shares.of_fair_share is 'share of steps times members: 1 is an equal share, 0 a member who never spoke';
comment on column traj.agent_shares.share_of_tokens is 'of output tokens; null unless every call of the episode was counted';
comment on column traj.agent_shares.influence is 'mean of causal_influence over its steps: what the next step loses without it; null where it was not judged';
comment on column traj.agent_shares.importance is 'sum of dylan_importance over its steps; null where it was not judged';

create view traj.execution_authors as
  with kept as not materialized (
    select v.episode_id, v.step_id, json_object_agg(v.method_key, v.keep order by v.method_key) as verdicts
    from facts.verdicts v where v.step_id <> '' group by v.episode_id, v.step_id
  ),
  authors as not materialized (
    select c.episode_id, c.call_id, coalesce(a.name, a.agent_id) as agent, coalesce(c.completed_role, c.requested_role, a.role) as role
    from facts.calls c
    left join facts.agents a on a.episode_id = c.episode_id and a.agent_id = coalesce(c.completed_agent_id, c.requested_agent_id)
  )
  select x.episode_id, x.feedback_id, x.name, x.program, x.program_step_id, x.program_name, p.agent as program_agent, p.role as program_role, x.program_valid,
         bool_and(x.pass) filter (where x.ground_truth) over w and bool_and(x.pass is not null) filter (where x.ground_truth) over w
           and coalesce(x.program_valid, true) as program_right,
         pv.verdicts as program_verdicts,
         x.test, x.test_step_id, x.test_name, t.agent as test_agent, t.role as test_role, x.test_valid, x.ground_truth, x.public, x.reference, tv.verdicts as test_verdicts, x.pass
  from traj.executions x
  left join authors p on p.episode_id = x.episode_id and p.call_id = traj.call_of(x.program_step_id)
  left join authors t on t.episode_id = x.episode_id and t.call_id = traj.call_of(x.test_step_id)
  left join kept pv on pv.episode_id = x.episode_id and pv.step_id = x.program_step_id
  left join kept tv on tv.episode_id = x.episode_id and tv.step_id = x.test_step_id
  window w as (partition by x.episode_id, x.feedback_id, x.program);
comment on view traj.execution_authors is 'Every cell of an execution matrix with who wrote the program and the test and what filters said of each. An episode can have several matrices: choose one by name or feedback_id, or cells count twice. pass null means not run.';
comment on column traj.execution_authors.program_right is 'passes every ground-truth test of the matrix; null where there is none or one was not run and none failed';
comment on column traj.execution_authors.program_verdicts is 'keep by method_key; null where no filter judged it';

create view traj.failures as
  with mast (code, title, category_code, category) as (values
    ('1.1', 'Disobey task specification', 'FC1', 'System design issues'),
    ('1.2', 'Disobey role specification', 'FC1', 'System design issues'),
    ('1.3', 'Step repetition', 'FC1', 'System design issues'),
    ('1.4', 'Loss of conversation history', 'FC1', 'System design issues'),
    ('1.5', 'Unaware of termination conditions', 'FC1', 'System design issues'),
    ('2.1', 'Conversation reset', 'FC2', 'Inter-agent misalignment'),
    ('2.2', 'Fail to ask for clarification', 'FC2', 'Inter-agent misalignment'),
    ('2.3', 'Task derailment', 'FC2', 'Inter-agent misalignment'),
    ('2.4', 'Information withholding', 'FC2', 'Inter-agent misalignment'),
    ('2.5', 'Ignored other agent''s input', 'FC2', 'Inter-agent misalignment'),
    ('2.6', 'Reasoning-action mismatch', 'FC2', 'Inter-agent misalignment'),
    ('3.1', 'Premature termination', 'FC3', 'Task verification'),
    ('3.2', 'No or incomplete verification', 'FC3', 'Task verification'),
    ('3.3', 'Incorrect verification', 'FC3', 'Task verification')
  ),
  said as (
    select coalesce(f.episode_id, f.resolved_episode_id) as episode_id, f.key, f.feedback_id, f.kind, f.name, f.label, f."by", f.annotator, f.target_kind, f.entry, f.at,
           case when json_typeof(f.taxonomy) = 'object' then f.taxonomy ->> 'name' end as taxonomy,
           case when json_typeof(f.taxonomy) = 'object' then f.taxonomy ->> 'version' end as taxonomy_version,
           coalesce(substring(f.name from '^(?:FM-)?([123]\.[1-6])$'), substring(f.label from '^(?:FM-)?([123]\.[1-6])$')) as code,
           case f.target_kind when 'agent' then f.target_id end as agent_id,
           case f.target_kind when 'step' then traj.call_of(f.target_id) when 'call' then f.target_id else f.resolved_call_id end as call_id,
           case f.target_kind when 'step' then f.target_id end as step_id
    from facts.feedback f
    where (f.kind = 'failure' or f.kind = 'label' and f.taxonomy is not null) and f.value is distinct from 0
  )
  select s.episode_id, o.task_id, o.team_id, o.team, s.feedback_id, s.key, s.kind, s.name, s.label, s.taxonomy, s.taxonomy_version,
         coalesce(m.code, s.label, s.name) as mode, m.title, m.category_code, m.category, s."by", s.annotator, s.target_kind,
         a.agent_id, coalesce(a.name, a.agent_id, s.agent_id) as agent, coalesce(c.completed_role, c.requested_role, a.role) as role,
         s.step_id, s.call_id, s.entry, o.solved, s.at
  from said s
  left join mast m on m.code = s.code and (s.taxonomy is null or s.taxonomy ~* 'mast')
  left join traj.outcomes o on o.episode_id = s.episode_id
  left join facts.calls c on c.episode_id = s.episode_id and c.call_id = s.call_id
  left join facts.agents a on a.episode_id = s.episode_id and a.agent_id = coalesce(s.agent_id, c.completed_agent_id, c.requested_agent_id);
comment on view traj.failures is 'Every failure that somebody noted, with its mode: feedback of kind failure, and labels that name a taxonomy; one with the value 0 or false says that the mode is absent and is left out. Two annotators of one failure are two rows. No row means that nobody noted a failure, not that there was none.';
comment on column traj.failures.mode is 'the code of the MAST taxonomy (arXiv 2503.13657) where the name or the label is one, else the label, else the name';
comment on column traj.failures.title is 'of that code in the released taxonomy, in which 3.2 includes no verification; an older taxonomy_version may mean something else by 3.2 and 3.3';

create view traj.failure_modes as
  with told as (
    select count(distinct episode_id) as episodes, taxonomy from traj.failures group by taxonomy
  )
  select f.taxonomy, f.taxonomy_version, f.mode, f.title, f.category, f.team_id, f.role, count(*) as failures, count(distinct f.episode_id) as episodes,
         count(distinct f.episode_id)::double precision / nullif(t.episodes, 0) as share_of_episodes, count(*) filter (where f.solved) as in_solved
  from traj.failures f join told t on t.taxonomy is not distinct from f.taxonomy
  group by f.taxonomy, f.taxonomy_version, f.mode, f.title, f.category, f.team_id, f.role, t.episodes;
comment on view traj.failure_modes is 'How often each mode was noted, by team and role of whoever it was noted about. Shares are of the episodes that have any failure of that taxonomy, not of all episodes, and do not add up to 1: an episode can have several.';
comment on column traj.failure_modes.in_solved is 'noted in episodes that were solved all the same';

create view traj.team_vs_single as
  with counted as (
    select task_id, count(*) filter (where members = 1) as single_episodes, count(solved) filter (where members = 1) as single_known,
           count(*) filter (where members = 1 and solved) as single_solved,
           count(*) filter (where members > 1) as team_episodes, count(solved) filter (where members > 1) as team_known,
           count(*) filter (where members > 1 and solved) as team_solved, count(*) filter (where members is null) as unknown_size,
           avg(tokens) filter (where members = 1 and solved is not null) as single_tokens, avg(tokens) filter (where members > 1 and solved is not null) as team_tokens,
           avg(calls) filter (where members = 1 and solved is not null) as single_calls, avg(calls) filter (where members > 1 and solved is not null) as team_calls
    from traj.outcomes where task_id is not null group by task_id
  )
  select task_id, single_episodes, single_known, single_solved, single_solved::double precision / nullif(single_known, 0) as single_rate,
         team_episodes, team_known, team_solved, team_solved::double precision / nullif(team_known, 0) as team_rate,
         team_solved::double precision / nullif(team_known, 0) - single_solved::double precision / nullif(single_known, 0) as difference,
         single_calls::double precision as single_calls, team_calls::double precision as team_calls,
         single_tokens::double precision as single_tokens, team_tokens::double precision as team_tokens, unknown_size
  from counted;
comment on view traj.team_vs_single is 'Task by task, episodes with several members against episodes with one. Average the difference over tasks that have both; a gain that costs many more calls is to be compared with as many attempts of the single one (traj.pass_at_k). All teams of a size class are thrown together.';
comment on column traj.team_vs_single.difference is 'solve rate of teams less that of single agents; null unless both are known for the task';
comment on column traj.team_vs_single.single_calls is 'mean calls of an episode';
comment on column traj.team_vs_single.unknown_size is 'episodes in which no member was named';

create view traj.blame_check as
  with gold as (
    select f.episode_id, f.feedback_id, f.agent_id, f.agent, coalesce(f.entry, (coalesce(c.requested_seq, c.completed_seq))::integer) as entry, f.step_id, f."by"
    from traj.failures f left join facts.calls c on c.episode_id = f.episode_id and c.call_id = f.call_id
    where f.kind = 'failure' and f.target_kind in ('agent', 'step', 'call')
  ),
  blamed as (
    select b.episode_id, m.method, b.method_key, b.rank, b.agent_id, b.step_id, coalesce(b.entry, coalesce(c.requested_seq, c.completed_seq)::integer) as entry, b.value, b.reason
    from facts.blames b join facts.judged_methods m using (method_key)
    left join facts.calls c on c.episode_id = b.episode_id and c.call_id = traj.call_of(b.step_id)
  )
  select g.episode_id, g.feedback_id, g."by", g.agent as gold_agent, g.step_id as gold_step_id, g.entry as gold_entry,
         b.method, b.method_key, b.rank, coalesce(a.name, b.agent_id) as blamed_agent, b.step_id as blamed_step_id, b.entry as blamed_entry, b.value, b.reason,
         b.agent_id = g.agent_id or coalesce(a.name, b.agent_id) = g.agent as agent_right,
         case when g.step_id is not null and b.step_id is not null then g.step_id = b.step_id else g.entry = b.entry end as step_right,
         abs(g.entry - b.entry) as entries_off
  from gold g
  left join blamed b on b.episode_id = g.episode_id
  left join facts.agents a on a.episode_id = b.episode_id and a.agent_id = b.agent_id;
comment on view traj.blame_check is 'What a person or program noted as the failure, beside what each blame method attributes it to, for each rank. Rank 0 is a method''s answer; count over it. A row without method is a failure that no method was run on. Null is no answer, not a wrong one: divide by all rows for accuracy, by those with an answer for precision.';
comment on column traj.blame_check.gold_entry is 'the entry that was named, else the number in order (seq) of the step''s call, which are the same where a source counts its entries';
comment on column traj.blame_check.entries_off is 'how far the blamed entry is from the true one';
