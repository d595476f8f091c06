create view report.credit_ranks as
  select k.group_id, c.episode_id, c.step_id, c.method_key, c.value,
         (width_bucket(c.value, g.ascending) + cardinality(g.ascending) - width_bucket(-c.value, g.descending) + 1) / 2.0::double precision as place
  from (select distinct episode_id from facts.credits) d
  left join facts.episodes e on e.episode_id = d.episode_id
  cross join lateral (select coalesce(e.group_id, e.task_id, d.episode_id) as group_id) k
  cross join lateral (
    select o.method_key, array_agg(o.value order by o.value) as ascending, array_agg(-o.value order by -o.value) as descending
    from (
      select x.episode_id from facts.episodes x where x.group_id = k.group_id
      union all
      select x.episode_id from facts.episodes x where x.group_id is null and x.task_id = k.group_id
      union all
      select x.episode_id from facts.episodes x where x.group_id is null and x.task_id is null and x.episode_id = k.group_id
      union all
      select d.episode_id where e.episode_id is null
    ) x
    join facts.credits o on o.episode_id = x.episode_id
    join facts.judged_methods m on m.method_key = o.method_key and m.kind = 'credit'
    where o.value is not null
    group by o.method_key
  ) g
  join facts.credits c on c.episode_id = d.episode_id and c.method_key = g.method_key
  where c.value is not null;

comment on view report.credit_ranks is 'The rank of each step in its group by one estimator, 1 for the lowest credit. The correlation of two methods'' places is Spearman''s. Filter by method_key or group_id: otherwise it sorts every credit in the database.';
comment on column report.credit_ranks.place is 'ties share their mean place';
