-- Starts from episodes, which has a row for every episode in the tables, so a join with a few episodes reads only their rows.
create view traj.messages as
  select e.episode_id, m.message_id, m.kind, m.call_id, m.place, m.sender, m.role, m.text, m.content, m.channel, m.turn, m.seq, m.at,
         m.artifacts
  from facts.episodes e cross join lateral (
    select c.episode_id, c.call_id || '#' || i.place as message_id, 'input' as kind, c.call_id, i.place,
           i.message ->> 'name' as sender, i.message ->> 'role' as role,
           case json_typeof(i.message -> 'content')
             when 'string' then i.message ->> 'content'
             when 'array' then (
               select string_agg(said.part #>> '{}', E'\n' order by p.n) from json_array_elements(i.message -> 'content') with ordinality as p (part, n)
               cross join lateral (select case when coalesce(json_typeof(p.part -> 'content'), 'null') = 'null' then p.part -> 'text' else p.part -> 'content' end as part) said
               where p.part ->> 'type' = 'text' and json_typeof(said.part) = 'string')
           end as text,
           case
             when o.others is not null
               then ('{"parts":' || case when json_typeof(i.message -> 'content') = 'array' then (i.message -> 'content')::text else 'null' end || o.others || '}')::json
             when json_typeof(i.message -> 'content') = 'array' then i.message -> 'content'
           end as content,
           null::text as channel, coalesce(c.requested_turn, c.completed_turn) as turn, troupe.seq_of(coalesce(c.requested_seq, c.completed_seq), coalesce(c.requested_at, c.completed_at), coalesce(c.completed_turn, c.requested_turn)) as seq, c.requested_at as at,
           case when json_typeof(i.message -> 'content') = 'string' then '{}' else
             array(select m[1] from regexp_matches((i.message -> 'content')::text, '"artifact_id" : "([0-9a-f]{64})"', 'g') as m) end as artifacts
    from facts.calls c
    cross join lateral troupe.messages_shown('e/' || c.episode_id, c.context) i
    cross join lateral (
      select string_agg(',' || to_json(m.key)::text || ':' || m.value::text, '' order by m.n) as others
      from json_each(i.message) with ordinality as m (key, value, n) where m.key not in ('role', 'content', 'name')
    ) o
    where c.episode_id = e.episode_id
    union all
    select m.episode_id, m.message_id, 'sent', m.call_id, null, m.sender, m.role,
           case when starts_with(m.text, E'\uFFFE#') then troupe.text_shown('e/' || m.episode_id, m.text) else m.text end collate "default",
           s.content, m.channel, m.turn, troupe.seq_of(m.seq, m.sent_at, m.turn), m.sent_at,
           array(select a[1] from regexp_matches(s.content::text, '"artifact_id" : "([0-9a-f]{64})"', 'g') as a)
    from facts.messages m
    cross join lateral (
      select case when position(E'"\uFFFE#' in m.content::text) > 0 then troupe.json_short('e/' || m.episode_id, m.content) else m.content end as content
    ) s
    where m.episode_id = e.episode_id
  ) m;

comment on view traj.messages is 'Every occurrence of a message: kind input = part of the context of a call, sent = exchanged between members, users and environment. Bodies are stored once.';
comment on column traj.messages.seq is 'as in traj.steps; for an input the number of its call';
comment on column traj.messages.artifacts is 'its images and files, as in traj.artifacts';
