-- Driven by episodes: every episode of which the tables have a row has one there, and a join with a few of them reads no more than theirs.
-- The mean size of each method is taken once, and only where a step has two of them: it was most of the time for one episode.
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

comment on view report.credit_spread is 'How far the estimators of one step are apart; their numbers are in traj.credits. A credit of 0 is no sign: it neither agrees nor differs. Read reason in traj.credits where one is silent.';
comment on column report.credit_spread.silent is 'methods that have a row and no number for the step';
comment on column report.credit_spread.spread is 'largest less smallest, each method divided by the mean of its absolute credits over the whole database; null for fewer than one number';
