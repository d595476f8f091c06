create view traj.lineage as
  select c.checkpoint_id, case split_part(r.split, '.', 1) when 'train' then 'trained on' when 'held_out' then 'held out' else split_part(r.split, '.', 1) end as relation,
         d.dataset_id, r.episode_id, r.step_id, null::text as other_checkpoint_id
  from facts.checkpoints c
  cross join lateral json_array_elements_text(c.dataset_ids) as d (dataset_id)
  join traj.dataset_rows r on r.dataset_id = d.dataset_id
  union all
  select c.checkpoint_id, 'child of', null, null, null, c.parent_id from facts.checkpoints c where c.parent_id is not null
  union all
  select c.checkpoint_id, 'adapter over', null, null, null, c.config -> 'adapter' ->> 'base'
  from facts.checkpoints c where c.config -> 'adapter' ->> 'base' is not null
  union all
  select c.checkpoint_id, 'spoke', null, s.episode_id, s.call_id || '/' || s.candidate, null
  from facts.calls c join facts.steps s using (episode_id, call_id)
  where c.checkpoint_id is not null;

comment on view traj.lineage is 'From an event to a checkpoint and back. relation: trained on, held out, validation, test (dataset, episode, step, by the part of the dataset: only data trained on is in the weights), child of (other_checkpoint_id), adapter over (other_checkpoint_id, its base), spoke (episode, step; the checkpoint generated it).';
