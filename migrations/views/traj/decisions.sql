create view traj.decisions as
  select episode_id, event_id as decision_id, author as "by", kind, decision, turn, troupe.seq_of(seq, occurred_at, turn) as seq, occurred_at as at from facts.decisions;

comment on view traj.decisions is 'Plans, recruitments, votes, acceptances, hand-overs (kind handoff, delegate, return, select).';
comment on column traj.decisions.seq is 'as in traj.steps';
