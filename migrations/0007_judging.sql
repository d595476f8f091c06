--! judgements: several attributions an episode, and what was computed beside a reward
-- A method may blame several agents, each with its share: rank 0 is the first. An advantage for each token, or the parts of a
-- reward, do not fit into one number: they stand beside it.
alter table facts.blames add column rank integer not null default 0, add column detail json;
alter table facts.blames drop constraint blames_pkey, add primary key (episode_id, method_key, rank);
alter table facts.rewards add column detail json;

create or replace view traj.rewards as
  select r.episode_id, nullif(r.step_id, '') as step_id, m.method, m.version, m.params, r.value, r.reason, r.method_key, r.detail
  from facts.rewards r join facts.judged_methods m using (method_key);

create or replace view traj.blames as
  select b.episode_id, m.method, m.version, m.params, b.agent_id, b.step_id, b.entry, b.value, b.reason, b.method_key, b.rank, b.detail
  from facts.blames b join facts.judged_methods m using (method_key);
comment on column traj.blames.rank is '0 is the first and surest; a method that gives every agent a share has a row for each';
comment on column traj.blames.entry is 'number of the entry in the record, from 0, where the source counts entries instead of steps';

create view traj.observations as
  select o.episode_id, o.kind, o.content, o.state, o.call_id, o.turn, o.seq, o.at, o.unmapped, o.event_source, o.event_id
  from facts.observations o;
comment on view traj.observations is 'What the environment showed: outputs, states, milestones, progress.';
