--! steps are found by call, and held apart by a hash
-- As judgements are (0037): an index of episode, call and candidate took 220 bytes a row where names are long, for rows of 370.
alter table facts.steps drop constraint steps_pkey,
  -- U+FFFE escapes what PostgreSQL cannot hold and is followed by hexadecimal digits there, so three texts are joined in one way only.
  add constraint steps_once exclude using hash ((episode_id || E'\uFFFE|' || call_id || E'\uFFFE|' || candidate) with =);
create index steps_of_call on facts.steps (episode_id, call_id);
