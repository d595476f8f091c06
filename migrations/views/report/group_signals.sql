create view report.group_signals as
  with groups as (
    select group_id, min(task_id) as task_id, count(*) as episodes, count(*) filter (where not coalesce(closed, false)) as open,
           min(coalesce(team_id, '')) = max(coalesce(team_id, '')) as one_team, max(team_id) as team_id,
           min(coalesce(split, '')) = max(coalesce(split, '')) as one_split, max(split) as split,
           min(coalesce(policy, '')) = max(coalesce(policy, '')) as one_policy, max(policy) as policy,
           min(coalesce(weights, '')) = max(coalesce(weights, '')) as same_weights, max(checkpoint_id) as checkpoint_id, max(weights) as weights
    from report.outcomes group by group_id
  ),
  counted as (
    select 'episodes' as kind, group_id, null::text as agent, null::text as origin, null::text as name, null::text as method_key,
           count(*) as members, count(reward) as rewarded, min(reward) as lowest, max(reward) as highest, avg(reward) as mean, stddev_samp(reward) as deviation,
           count(*) filter (where reward >= 1) as solved
    from report.outcomes group by group_id
    union all
    select 'candidates', group_id, agent, origin, name, method_key, count(*), count(local_reward), min(local_reward), max(local_reward), avg(local_reward),
           stddev_samp(local_reward), case origin when 'recorded' then count(*) filter (where local_reward >= 1) end
    from report.local_rewards where step_id is not null and group_id is not null group by group_id, agent, origin, name, method_key
  )
  select c.group_id, g.task_id, g.episodes, c.rewarded, c.members - c.rewarded as missing, g.open, c.lowest, c.highest, c.mean, c.deviation, c.solved,
         coalesce(c.rewarded > 1 and c.lowest < c.highest, false) as signal,
         case when c.rewarded = 0 then 'missing_reward' when c.rewarded = 1 then 'group_of_one' when c.lowest = c.highest then 'zero_variance' end as reason,
         c.kind, c.members, c.agent, c.origin, c.name, c.method_key,
         case when g.one_team then g.team_id end as team_id, case when g.one_split then g.split end as split, case when g.one_policy then g.policy end as policy,
         case when g.same_weights then g.checkpoint_id end as checkpoint_id, case when g.same_weights then g.weights end as weights,
         not (g.one_team and g.same_weights) as mixed
  from counted c join groups g using (group_id);

comment on view report.group_signals is 'Whether a group gives a signal to an estimator that compares its members. kind episodes: by recorded episode rewards. kind candidates: by the rewards of the steps of one agent in a group, for each recorded or computed reward; count one kind and one reward at a time. A group without signal trains nothing, with one exception: GRPO as in verl gives a group of one its reward as the advantage. Pools: everything in the group, as the estimators do; mixed marks several teams or weights.';
comment on column report.group_signals.episodes is 'episodes of the group, also for kind candidates';
comment on column report.group_signals.missing is 'members without a reward; they get no advantage, even in a group with a signal';
comment on column report.group_signals.deviation is 'sample standard deviation (divisor n - 1)';
comment on column report.group_signals.solved is 'members with a reward of 1 or more; null for computed rewards, which have scales of their own';
comment on column report.group_signals.reason is 'why there is no signal, as in traj.credits: missing_reward (none has one), group_of_one (one has), zero_variance (all equal)';
comment on column report.group_signals.kind is 'episodes or candidates: what is compared';
comment on column report.group_signals.members is 'number compared, with and without a reward';
comment on column report.group_signals.mixed is 'several teams or weights played it: team_id or weights are null, and they may explain a difference within the group';
