--! the spread of credits reads the mean size of methods only where a step has two of them
--! works with 45
-- The same answers, but for a method whose every credit is 0: a step that it alone has judged has a spread of 0 now, and had none. The mean
-- over all credits was most of the time for one episode (53 ms of processor time among 230,320 credits).
create or replace view traj.credit_spread as
  with scales as materialized (select method_key, nullif(avg(abs(value)), 0) as scale from facts.credits group by method_key)
  select c.episode_id, c.step_id, coalesce(e.group_id, e.task_id, c.episode_id) as group_id, c.methods, c.silent, c.positive, c.negative,
         c.positive > 0 and c.negative > 0 as signs_differ,
         case when c.methods > 1 then (
           select max(x.value / s.scale) - min(x.value / s.scale) from unnest(c.keys, c.sizes) as x (method_key, value) join scales s on s.method_key = x.method_key
         ) when c.methods = 1 then 0 end as spread
  from (
    select c.episode_id, c.step_id, count(c.value) as methods, count(*) - count(c.value) as silent,
           count(*) filter (where c.value > 0) as positive, count(*) filter (where c.value < 0) as negative,
           array_agg(c.method_key) as keys, array_agg(c.value) as sizes
    from facts.credits c join facts.judged_methods m on m.method_key = c.method_key and m.kind = 'credit'
    group by c.episode_id, c.step_id
  ) c left join facts.episodes e using (episode_id);
