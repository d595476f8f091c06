create view traj.dead_letters as
  select dead_letter_id, endpoint, place, code, field, expected, got, octet_length(raw) as bytes, attempts, first_at, last_at, replayed_at from troupe.dead_letters;

comment on view traj.dead_letters is 'What was refused, why, where it came from; the raw bytes are kept.';
