create view report.agreement as
  with given as (
    select o.task_id, o.team_id, o.split, o.policy, o.checkpoint_id, o.weights, o.rollout, o.episode_id, o.solved, report.plain_answer(e.answer) as answer
    from report.outcomes o join facts.episodes e using (episode_id)
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
  cross join lateral (select case when json_typeof(k.ground_truth) in ('string', 'number', 'boolean') then report.plain_answer(k.ground_truth #>> '{}') end as truth) t
  where r.place = 1;

comment on view report.agreement is 'How often the finished episodes of a task, team, policy, weights and rollout give the same answer. Misleads for long texts, which never match word for word, and when a team agrees on a wrong answer: read majority_right too. Pools: episodes of one task by one team with the same weights in one rollout; episodes without a rollout, of any time.';
comment on column report.agreement.answered is 'episodes with an answer; the others vote for nothing';
comment on column report.agreement.majority is 'the most frequent answer; ties go to the lowest episode id; null if nobody answered';
comment on column report.agreement.agreement is 'its share of all finished episodes; null if nobody answered';
comment on column report.agreement.tied is 'another answer is as frequent';
comment on column report.agreement.majority_right is 'equals the ground truth as text or number; null if that is unknown or not a plain value. For multiple-choice letters use correctness_filter';
comment on column report.agreement.majority_solve_rate is 'solve rate of the episodes with that answer, where known';
comment on column report.agreement.rollout is 'the rollout that played the episodes; null if none did';
