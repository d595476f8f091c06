create view report.credit_pairs as
  select coalesce(e.group_id, e.task_id, a.episode_id) as group_id, a.method_key, b.method_key as other_method_key, count(*) as steps,
         count(*) filter (where a.value > 0 and b.value > 0 or a.value < 0 and b.value < 0) as same_sign,
         count(*) filter (where a.value > 0 and b.value < 0 or a.value < 0 and b.value > 0) as opposite_sign,
         count(*) filter (where (a.value = 0) <> (b.value = 0)) as zero_in_one,
         corr(a.value, b.value) as correlation, avg(abs(a.value)) as size, avg(abs(b.value)) as other_size
  from facts.credits a
  join facts.credits b on b.episode_id = a.episode_id and b.step_id = a.step_id and b.method_key > a.method_key
  join facts.judged_methods ma on ma.method_key = a.method_key and ma.kind = 'credit'
  join facts.judged_methods mb on mb.method_key = b.method_key and mb.kind = 'credit'
  left join facts.episodes e on e.episode_id = a.episode_id
  where a.value is not null and b.value is not null
  group by 1, 2, 3;

comment on view report.credit_pairs is 'Two estimators over the steps of one group. Within a group many estimators are the same numbers scaled, so expect a correlation of 1; they differ in size between groups and agents. Filter by both method keys on a large database.';
comment on column report.credit_pairs.zero_in_one is 'steps with credit 0 by one estimator and not by the other';
comment on column report.credit_pairs.correlation is 'Pearson; null if either gives every step of the group the same credit';
comment on column report.credit_pairs.size is 'mean absolute credit by method_key: the weight of the group; other_size is by the other';
