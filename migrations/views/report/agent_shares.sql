-- Starts from episodes, which has a row for every episode in the tables, so a join with a few episodes reads only their rows.
create view report.agent_shares as
  select e.episode_id, x.task_id, x.team_id, x.agent_id, x.agent, x.role, x.members, x.calls, x.steps, x.tool_calls, x.output_tokens,
         x.share_of_steps, x.share_of_tool_calls, x.share_of_tokens, x.of_fair_share, x.influence, x.importance, x.solved
  from facts.episodes e cross join lateral (
    with spoken as (
      select c.episode_id, coalesce(c.completed_agent_id, c.requested_agent_id) as agent_id, count(*) as calls,
             case when count(*) = count(c.output_tokens) then sum(c.output_tokens) end as output_tokens
      from facts.calls c where c.episode_id = e.episode_id group by 1, 2
    ),
    said as (
      select c.episode_id, coalesce(c.completed_agent_id, c.requested_agent_id) as agent_id, count(*) as steps
      from facts.steps s join facts.calls c using (episode_id, call_id) where s.episode_id = e.episode_id group by 1, 2
    ),
    used as not materialized (
      select t.episode_id, coalesce(t.agent_id, c.completed_agent_id, c.requested_agent_id) as agent_id, count(*) as tool_calls
      from facts.tool_calls t left join facts.calls c on c.episode_id = t.episode_id and c.call_id = t.call_id
      where t.episode_id = e.episode_id and t.called_version is not null group by 1, 2
    ),
    members as (
      select episode_id, agent_id from facts.agents where episode_id = e.episode_id
      union select episode_id, null from facts.calls where episode_id = e.episode_id and completed_agent_id is null and requested_agent_id is null
      union select episode_id, null from used where agent_id is null
    ),
    influence as (
      select k.episode_id, coalesce(c.completed_agent_id, c.requested_agent_id) as agent_id,
             avg(k.value) filter (where m.method = 'causal_influence') as influence, sum(k.value) filter (where m.method = 'dylan_importance') as importance
      from facts.credits k join facts.judged_methods m using (method_key)
      join facts.calls c on c.episode_id = k.episode_id and c.call_id = traj.call_of(k.step_id)
      where k.episode_id = e.episode_id and m.method in ('causal_influence', 'dylan_importance') group by 1, 2
    ),
    counted as (
      select m.episode_id, m.agent_id, coalesce(p.calls, 0) as calls, coalesce(s.steps, 0) as steps, coalesce(u.tool_calls, 0) as tool_calls,
             case when p.calls is null then 0 else p.output_tokens end as output_tokens
      from members m
      left join spoken p on p.episode_id = m.episode_id and coalesce(p.agent_id, '') = coalesce(m.agent_id, '')
      left join said s on s.episode_id = m.episode_id and coalesce(s.agent_id, '') = coalesce(m.agent_id, '')
      left join used u on u.episode_id = m.episode_id and coalesce(u.agent_id, '') = coalesce(m.agent_id, '')
    )
    select c.episode_id, o.task_id, o.team_id, c.agent_id, coalesce(a.name, c.agent_id) as agent, coalesce(a.role, a.name, a.agent_id collate "default") as role, count(c.agent_id) over w as members,
           c.calls, c.steps, c.tool_calls, c.output_tokens::bigint as output_tokens,
           c.steps::double precision / nullif(sum(c.steps) over w, 0)::double precision as share_of_steps,
           c.tool_calls::double precision / nullif(sum(c.tool_calls) over w, 0)::double precision as share_of_tool_calls,
           case when bool_and(c.output_tokens is not null) over w then (c.output_tokens / nullif(sum(c.output_tokens) over w, 0))::double precision end as share_of_tokens,
           count(c.agent_id) over w * (c.steps::double precision / nullif(sum(c.steps) over w, 0)::double precision) as of_fair_share,
           i.influence, i.importance, o.solved
    from counted c
    left join facts.agents a on a.episode_id = c.episode_id and a.agent_id = c.agent_id
    left join influence i on i.episode_id = c.episode_id and i.agent_id = c.agent_id
    left join report.outcomes o on o.episode_id = c.episode_id
    window w as (partition by c.episode_id)
  ) x;

comment on view report.agent_shares is 'Each member''s share of the work in an episode. Lazy agents have a small share and, if judged, little influence. A small share alone is not laziness: a reviewer may agree in one word, and an agent of many steps may be ignored. agent_id is null for work without a named agent.';
comment on column report.agent_shares.share_of_tokens is 'of output tokens; null unless every call of the episode was counted';
comment on column report.agent_shares.of_fair_share is 'share of steps times members: 1 is an equal share, 0 a member without a call';
comment on column report.agent_shares.influence is 'mean of causal_influence over its steps: what the next step loses without it; null if not judged';
comment on column report.agent_shares.importance is 'sum of dylan_importance over its steps; null if not judged';
