-- A plain union of two tables without `with`, which would be computed whole: a join with a few episodes reads only their rows.
create view report.local_rewards as
  select s.episode_id, o.task_id, o.team_id, s.origin, coalesce(s.name, m.method) as name, s.method_key, s.target_kind, s.step_id, s.call_id,
         a.agent_id, coalesce(a.name, a.agent_id) as agent,
         coalesce(c.completed_role, c.requested_role, a.role, a.name, a.agent_id collate "default") as role, s.value as local_reward, o.reward as team_reward, o.solved, o.group_id, o.split, o.policy, o.checkpoint_id, o.weights
  from (
    select coalesce(f.episode_id, f.resolved_episode_id) as episode_id, 'recorded' as origin, f.name, null::text collate "C" as method_key, f.target_kind,
           case f.target_kind when 'agent' then f.target_id end as agent_id,
           (case f.target_kind when 'step' then traj.call_of(f.target_id) when 'call' then f.target_id else f.resolved_call_id end) collate "C" as call_id,
           (case f.target_kind when 'step' then f.target_id end) collate "C" as step_id, f.value
    from facts.feedback f
    where f.kind = 'reward' and (f.target_kind in ('agent', 'call', 'step') or f.resolved_call_id is not null)
    union all
    select r.episode_id, 'computed', null::text, r.method_key, 'step', null::text, traj.call_of(r.step_id), r.step_id, r.value
    from facts.rewards r where r.step_id <> ''
  ) s
  left join facts.judged_methods m on m.method_key = s.method_key
  left join report.outcomes o on o.episode_id = s.episode_id
  left join facts.calls c on c.episode_id = s.episode_id and c.call_id = s.call_id
  left join facts.agents a on a.episode_id = s.episode_id and a.agent_id = coalesce(s.agent_id, c.completed_agent_id, c.requested_agent_id);

comment on view report.local_rewards is 'Rewards of an agent, call or step, with the reward of their episode: recorded ones, and computed ones of reward methods (choose one name and method_key before averaging). Scales may differ: compare ranks, not sizes.';
comment on column report.local_rewards.origin is 'recorded: feedback of kind reward; computed: a row of traj.rewards';
comment on column report.local_rewards.weights is 'of the episode, as in report.outcomes; likewise policy and checkpoint_id';
