--! revisions of episodes
-- The revision of an episode grows with every change of it, so whoever has read it can tell that it changed since. It is no place in the log.
alter table facts.episodes rename column touched_position to revision;
alter table troupe.pruned rename column touched to revision;
alter table troupe.judged_positions rename to judged_revisions;
alter table troupe.judged_revisions rename column position to revision;
alter index troupe.judged_positions_pkey rename to judged_revisions_pkey;
