--! a release may give a policy the model that its route falls back to; traj.lineage names the base of an adapter
--! works with 49
comment on column traj.releases.checkpoint_id is 'upstream:MODEL where the policy was given the model that its route falls back to, as before its first release';

create or replace view traj.lineage as
  select c.checkpoint_id, 'trained on' as relation, d.dataset_id, r.episode_id, r.call_id || '/' || r.candidate as step_id, null::text as other_checkpoint_id
  from facts.checkpoints c
  cross join lateral json_array_elements_text(c.dataset_ids) as d (dataset_id)
  join facts.dataset_rows r on r.dataset_id = d.dataset_id
  union all
  select c.checkpoint_id, 'child of', null, null, null, c.parent_id from facts.checkpoints c where c.parent_id is not null
  union all
  select c.checkpoint_id, 'adapter over', null, null, null, c.config -> 'adapter' ->> 'base'
  from facts.checkpoints c where c.config -> 'adapter' ->> 'base' is not null
  union all
  select c.checkpoint_id, 'spoke', null, s.episode_id, s.call_id || '/' || s.candidate, null
  from facts.calls c join facts.steps s using (episode_id, call_id)
  where c.checkpoint_id is not null;
comment on view traj.lineage is 'From an event to a checkpoint and back. relation: trained on (dataset, episode, step), child of (other_checkpoint_id), adapter over (other_checkpoint_id, its base), spoke (episode, step).';
