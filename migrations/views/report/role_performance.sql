create view report.role_performance as
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
    from present p join report.outcomes o using (episode_id) join facts.episodes e using (episode_id)
  ),
  tasks as (
    select task_id, coalesce(weights, '') as weights, count(solved) as known, count(*) filter (where solved) as solved
    from report.outcomes where task_id is not null group by 1, 2
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
    select coalesce(split, '') as split, coalesce(weights, '') as weights, count(solved) as known, count(*) filter (where solved) as solved from report.outcomes group by 1, 2
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

comment on view report.role_performance is 'How often episodes with a role were solved, by team, split, policy and weights, compared with episodes of the same tasks without it, whose weights are those of the other roles here. When averaging over rows, weigh difference by tasks_compared and split_difference by known. A difference is not a cause: teams with the role differ in more than the role. Pools: episodes of one team with the same weights over the tasks of a split; episodes without the role are those of every team.';
comment on column report.role_performance.known is 'episodes with a known outcome; the rates are over these';
comment on column report.role_performance.known_without is 'episodes of the same tasks without the role, by any team with the same weights in the other roles';
comment on column report.role_performance.difference is 'solve rate with the role minus without, per task, averaged over tasks that have both (tasks_compared); null if there are none';
comment on column report.role_performance.weights is 'weights in the episodes with the role. Episodes without it are matched on the weights of the other roles, or on these if there is no other role';
comment on column report.role_performance.split_known_without is 'episodes of the same split without the role, with the same weights in the other roles, on any tasks; null if the other roles used several weights';
comment on column report.role_performance.split_difference is 'solve_rate minus split_solve_rate_without. For tasks that are drawn at random and seldom repeat; misleads if the role is called for harder tasks';
