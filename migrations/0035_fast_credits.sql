--! views of credits that are fast for one episode
-- The same answers as before. A place is counted in the sorted credits of the group instead of by a window over all credits, and
-- the scale of a method is averaged without a join.
create or replace view traj.credit_ranks as
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

create or replace view traj.credit_spread as
  with scales as (select method_key, nullif(avg(abs(value)), 0) as scale from facts.credits group by method_key)
  select c.episode_id, c.step_id, coalesce(e.group_id, e.task_id, c.episode_id) as group_id, c.methods, c.silent, c.positive, c.negative,
         c.positive > 0 and c.negative > 0 as signs_differ, c.spread
  from (
    select c.episode_id, c.step_id, count(c.value) as methods, count(*) - count(c.value) as silent,
           count(*) filter (where c.value > 0) as positive, count(*) filter (where c.value < 0) as negative,
           max(c.value / s.scale) - min(c.value / s.scale) as spread
    from facts.credits c join facts.judged_methods m on m.method_key = c.method_key and m.kind = 'credit' join scales s on s.method_key = c.method_key
    group by c.episode_id, c.step_id
  ) c left join facts.episodes e using (episode_id);
