-- Starts from episodes, which has a row for every episode in the tables, so a join with a few episodes reads only their rows.
-- Computes each method's mean size once, and only if a step has two methods: it took most of the time for one episode.
create view report.credit_spread as
  select e.episode_id, c.step_id, coalesce(e.group_id, e.task_id, e.episode_id) as group_id, c.methods, c.silent, c.positive, c.negative,
         c.positive > 0 and c.negative > 0 as signs_differ,
         case when c.methods > 1 then (
           select max(x.value / s.scale) - min(x.value / s.scale)
           from unnest(c.keys, c.sizes) as x (method_key, value)
           join json_each((
             select json_object_agg(k.method_key, k.scale) from (select method_key, nullif(avg(abs(value)), 0) as scale from facts.credits group by method_key) k
           )) as g on g.key = x.method_key
           cross join lateral (select (g.value #>> '{}')::double precision as scale) s
         ) when c.methods = 1 then 0 end as spread
  from facts.episodes e
  cross join lateral (
    select c.step_id, count(c.value) as methods, count(*) - count(c.value) as silent,
           count(*) filter (where c.value > 0) as positive, count(*) filter (where c.value < 0) as negative,
           array_agg(c.method_key) as keys, array_agg(c.value) as sizes
    from facts.credits c join facts.judged_methods m on m.method_key = c.method_key and m.kind = 'credit'
    where c.episode_id = e.episode_id
    group by c.step_id
  ) c;

comment on view report.credit_spread is 'How far apart the estimators of one step are; their numbers are in traj.credits. A credit of 0 has no sign: it neither agrees nor differs. If a method is silent, read reason in traj.credits.';
comment on column report.credit_spread.silent is 'methods that have a row but no number for the step';
comment on column report.credit_spread.spread is 'largest minus smallest, each method divided by the mean of its absolute credits over the whole database; null without a number';
