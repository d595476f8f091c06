create view report.pass_at_k as
  with counted as (
    select task_id, team_id, split, policy, checkpoint_id, weights, rollout, count(*) as episodes, count(solved) as n, count(*) filter (where solved) as c
    from report.outcomes where task_id is not null group by task_id, team_id, split, policy, checkpoint_id, weights, rollout
  )
  select q.task_id, q.team_id, k.k::integer as k, q.n, q.c, q.episodes - q.n as unknown,
         case when k.k is not null then 1 - report.product(greatest(q.n - q.c - k.k + 1, 0)::double precision / (q.n - k.k + 1)) over w end as pass_at_k,
         case when k.k is not null then report.product(greatest(q.c - k.k + 1, 0)::double precision / (q.n - k.k + 1)) over w end as pass_all_k,
         q.split, q.policy, q.checkpoint_id, q.weights, q.rollout
  from counted q left join lateral generate_series(1, q.n) as k (k) on true
  window w as (partition by q.task_id, q.team_id, q.policy, q.checkpoint_id, q.weights, q.rollout order by k.k);

comment on view report.pass_at_k is 'For each task, team, policy, weights and rollout, and k up to the number n of its episodes: the chance that at least one of k episodes drawn from them solves it, 1 - C(n-c,k)/C(n,k), and the chance that all k do. Average over tasks, not rows, and only over tasks with the same k. Misleads when many episodes are unknown: they are left out, not counted as failures. Pools: episodes of one task by one team with the same weights in one rollout; episodes without a rollout, of any time.';
comment on column report.pass_at_k.k is 'null, with both chances, if no episode of the task has a known outcome';
comment on column report.pass_at_k.c is 'solved among n';
comment on column report.pass_at_k.unknown is 'episodes left out: neither solved nor failed';
comment on column report.pass_at_k.pass_all_k is 'C(c,k)/C(n,k): how reliable the team is';
comment on column report.pass_at_k.rollout is 'the rollout that played the episodes; null if none did';
