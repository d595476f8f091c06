create view report.pair_performance as
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
    select episode_id, author, decision ->> 'to_agent', 'handover' from facts.decisions
    where kind in ('handoff', 'delegate', 'return', 'select') and author <> decision ->> 'to_agent'
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
    from report.outcomes where task_id is not null group by 1, 2
  ),
  held as (
    select p.agent, p.other_agent, p.message, p.handover, p.turns, o.task_id, o.team_id, o.split, o.policy, o.checkpoint_id, o.weights, o.solved
    from pairs p join report.outcomes o using (episode_id)
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

comment on view report.pair_performance is 'Two agents, by name, that interacted: one sent the other a message, handed over to it, or made the next call. Shows how often such episodes were solved, by team, split, policy and weights, and episodes of the same tasks and weights in which the two did not interact. Turns are weak evidence if agents act in a fixed order; a difference is not a cause. Pools: episodes of one team with the same weights over the tasks of a split; episodes without the pair are those of every team.';
comment on column report.pair_performance.agent is 'the name that sorts first; the pair has no direction';
comment on column report.pair_performance.by_turns is 'episodes in which one made the call right after the other''s; an episode can also count under message and handover';
comment on column report.pair_performance.difference is 'solve rate with the pair minus without, per task and with the same weights, averaged over tasks that have both (tasks_compared)';
