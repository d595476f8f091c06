create view traj.scores as
  select s.key, case when s.key like 'e/%' then substr(s.key, 3) end as episode_id, case when s.key like 'g/%' then substr(s.key, 3) end as group_id,
         m.method, m.version, m.params, s.value, s.reason, s.detail, s.method_key
  from facts.scores s join facts.judged_methods m using (method_key);

comment on view traj.scores is 'A number about an episode or a group.';
