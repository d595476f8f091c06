create view report.failure_modes as
  with noted as (
    select f.*, o.split, o.policy, o.checkpoint_id, o.weights,
           row_number() over (partition by f.taxonomy, f.episode_id, o.team_id order by f.key, f.feedback_id) = 1 as first_of_episode
    from report.failures f left join report.outcomes o on o.episode_id = f.episode_id
  )
  select taxonomy, taxonomy_version, mode, title, category, team_id, role, count(*) as failures, count(distinct episode_id) as episodes,
         count(distinct episode_id)::double precision
           / nullif(sum(count(*) filter (where first_of_episode and episode_id is not null)) over (partition by taxonomy, team_id, split, policy, checkpoint_id, weights), 0)::double precision as share_of_episodes,
         count(*) filter (where solved) as in_solved, split, policy, checkpoint_id, weights
  from noted group by taxonomy, taxonomy_version, mode, title, category, team_id, role, split, policy, checkpoint_id, weights;

comment on view report.failure_modes is 'How often each failure mode was recorded, by team, role of the target, split, policy and weights. Shares are of the episodes of that team, split and weights with any failure of that taxonomy, not of all episodes. They do not add up to 1, because an episode can have several. Pools: all annotators and all tasks of a split.';
comment on column report.failure_modes.in_solved is 'recorded in episodes that were solved anyway';
