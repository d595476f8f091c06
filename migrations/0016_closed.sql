--! episodes that ended within the second of their last event
-- An end is compared at the precision of its own time. Touched, so that these episodes are judged.
update facts.episodes set closed = true, touched_position = touched_position + 1
where closed is not true and finished_at is not null and date_trunc(
  case when finished_at = date_trunc('second', finished_at) then 'second'
       when finished_at = date_trunc('milliseconds', finished_at) then 'milliseconds' else 'microseconds' end, last_at) <= finished_at;
