create view traj.dead_letters as
  select dead_letter_id, endpoint, place, code, field, expected, got, octet_length(raw) as bytes, attempts, first_at, last_at, replayed_at from troupe.dead_letters;

comment on view traj.dead_letters is 'Refused input with its reason and source; the raw bytes are stored.';
