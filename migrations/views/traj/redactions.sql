create view traj.redactions as
  select e.key, case when e.key like 'e/%' then substr(e.key, 3) end as episode_id, e.source, e.id, e.name as event, r.key as rule,
         case when r.value ~ '^[0-9]{1,9}$' then r.value::integer end as count
  from troupe.stored_events e
  cross join lateral json_each_text(case when json_typeof(e.data -> 'redactions') = 'object' then e.data -> 'redactions' else '{}' end) r
  where strpos(e.data::text, '"redactions":{') > 0;

comment on view traj.redactions is 'Secrets replaced before they reached the log, one row for each event and rule. The value is stored nowhere; a mark with the rule''s name replaces it.';
