create view traj.observations as
  select o.episode_id, o.kind,
         case when position(E'"\uFFFE#' in o.content::text) > 0 then troupe.json_short('e/' || o.episode_id, o.content) else o.content end as content,
         case when position(E'"\uFFFE#' in o.state::text) > 0 then troupe.json_short('e/' || o.episode_id, o.state) else o.state end as state,
         o.call_id, o.turn, troupe.seq_of(o.seq, o.occurred_at, o.turn) as seq, o.occurred_at as at,
         case when position(E'"\uFFFE#' in o.unmapped::text) > 0 then troupe.json_short('e/' || o.episode_id, o.unmapped) else o.unmapped end as unmapped,
         o.event_source, o.event_id
  from facts.observations o;

comment on view traj.observations is 'Output of the environment: results, states, milestones, progress.';
comment on column traj.observations.seq is 'as in traj.steps';
