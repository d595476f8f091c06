--! the views of schema traj: what an analyst reads
-- Stable names over the tables. Additive: a changed meaning would be schema traj2 beside this one.
create schema traj;
comment on schema traj is 'Trajectories for analysts: stable, documented views. Keys: episode_id, step_id (= call_id/candidate), call_id, task_id, group_id, team_id, agent_id, checkpoint_id.';

create view traj.tasks as
  select task_id, query, content, ground_truth, reference, tests, origin, split, difficulty, domain, tags, unmapped from facts.tasks;
comment on view traj.tasks is 'Problems. ground_truth and reference are what the source says; never put them into a prompt.';

create view traj.teams as
  select team_id, name, team_version, agents, edges, content_hash, tags, unmapped from facts.teams;
comment on view traj.teams is 'Multi-agent systems: members, wiring, version.';

create view traj.episodes as
  select e.episode_id, e.task_id, e.attempt, e.group_id, e.group_size, e.session_id, e.team_id, e.env_id, e.parent_episode_id,
         e.outcome, e.reward, e.answer, e.closed, e.agents, e.calls, e.steps, e.tool_calls, e.messages, e.feedback,
         e.input_tokens, e.output_tokens, e.started_at, e.finished_at, e.last_at, e.stop_reason, e.exit_status,
         e.policies, e.tags, e.flags, e.totals, e.unmapped, e.raw_artifact_id
  from facts.episodes e;
comment on view traj.episodes is 'Attempts by a team at a task. reward is the feedback named "reward" on the episode, last by (time, id); null when there is none.';
comment on column traj.episodes.closed is 'true once episode.finished came and nothing later was said';
comment on column traj.episodes.calls is 'model calls; steps counts their candidates';

create view traj.agents as
  select episode_id, agent_id, coalesce(name, agent_id) as agent, role, parent_agent_id, depth, model, policy, system_instructions, tools, params, unmapped
  from facts.agents;
comment on view traj.agents is 'Members of an episode. agent_id is unique in its episode; agent is the name.';

create view traj.steps as
  select s.episode_id, s.call_id || '/' || s.candidate as step_id, s.call_id, s.candidate,
         coalesce(c.completed_agent_id, c.requested_agent_id) as agent_id,
         coalesce(a.name, c.completed_agent_id, c.requested_agent_id) as agent,
         coalesce(c.completed_role, c.requested_role, a.role) as role,
         coalesce(c.completed_turn, c.requested_turn) as turn,
         coalesce(c.requested_seq, c.completed_seq) as seq,
         e.task_id, e.group_id, e.team_id,
         s.text, s.content, s.finish_reason, s.token_ids, s.logprobs, s.loss_mask, s.chosen, s.parent_step_id,
         c.prompt_token_ids, c.model, c.response_model, c.policy, c.checkpoint_id, c.model_version, c.temperature, c.seed,
         c.input_tokens, c.output_tokens, c.latency_ms, c.error, c.requested_at, c.completed_at
  from facts.steps s
  join facts.calls c using (episode_id, call_id)
  left join facts.episodes e using (episode_id)
  left join facts.agents a on a.episode_id = s.episode_id and a.agent_id = coalesce(c.completed_agent_id, c.requested_agent_id);
comment on view traj.steps is 'One row for each candidate output of a model call. A call with n choices is n steps; at most one is chosen.';
comment on column traj.steps.logprobs is 'under the distribution the tokens were sampled from';
comment on column traj.steps.checkpoint_id is 'the weights that spoke, where known';

create view traj.messages as
  select c.episode_id, c.call_id || '#' || (i.place - 1) as message_id, 'input' as kind, c.call_id, (i.place - 1)::integer as place,
         b.name as sender, b.role, b.text, b.content, null::text as channel, coalesce(c.requested_turn, c.completed_turn) as turn,
         c.requested_seq as seq, c.requested_at as at
  from facts.calls c
  cross join lateral unnest(c.input) with ordinality as i (hash, place)
  join facts.message_bodies b on b.episode_id = c.episode_id and b.hash = i.hash
  union all
  select m.episode_id, m.message_id, 'sent', m.call_id, null, m.sender, m.role, m.text, m.content, m.channel, m.turn, m.seq, m.sent_at
  from facts.messages m;
comment on view traj.messages is 'Every occurrence of a message: kind input = part of the context of a call, sent = said between members, users and environment. Bodies are stored once.';

create view traj.tool_calls as
  select episode_id, tool_call_id, call_id, index, agent_id, name, type, arguments, arguments_raw, parse_error, status, output, error,
         duration_ms, from_cache, truncated, turn, seq, called_at, returned_at
  from facts.tool_calls;
comment on view traj.tool_calls is 'One row for each emitted tool call; status is null while no result came, name is null for a result without a call.';

create view traj.feedback as
  select coalesce(f.episode_id, f.resolved_episode_id) as episode_id, f.feedback_id, f.key, f.target_kind, f.target_id, f.other_id, f.entry,
         f.kind, f.name, f.value, f.value_json, f.label, f.taxonomy, f."by", f.annotator, f.explanation, f.confidence, f.flags, f.at,
         f.matrix is not null as has_matrix,
         f.target_kind = 'foreign' and f.resolved_episode_id is null as pending
  from facts.feedback f;
comment on view traj.feedback is 'Anything said about a target after the fact. pending: its target is known by a foreign id that has not been seen yet.';

create view traj.executions as
  select f.episode_id, f.feedback_id, f.name,
         (p.place - 1)::integer as program, p.member ->> 'step_id' as program_step_id, p.member ->> 'name' as program_name,
         (p.member ->> 'valid')::boolean as program_valid, coalesce((p.member ->> 'reference')::boolean, false) as reference,
         (t.place - 1)::integer as test, t.member ->> 'step_id' as test_step_id, t.member ->> 'name' as test_name,
         (t.member ->> 'valid')::boolean as test_valid, coalesce((t.member ->> 'ground_truth')::boolean, false) as ground_truth,
         coalesce((t.member ->> 'public')::boolean, false) as public,
         case r.cells ->> (t.place - 1)::integer when '1' then true when '0' then false end as pass
  from facts.feedback f
  cross join lateral json_array_elements(f.matrix -> 'programs') with ordinality as p (member, place)
  cross join lateral (select f.matrix -> 'pass' -> (p.place - 1)::integer as cells) r
  cross join lateral json_array_elements(f.matrix -> 'tests') with ordinality as t (member, place)
  where f.kind = 'execution' and f.matrix is not null;
comment on view traj.executions is 'A row for each cell of an execution matrix: did this program pass this test; null = not run. reference and ground_truth flag the truth.';

create view traj.decisions as
  select episode_id, event_id as decision_id, "by", kind, decision, turn, seq, at from facts.decisions;
comment on view traj.decisions is 'Plans, recruitments, votes, acceptances, hand-overs (kind handoff, delegate, return, select).';

create view traj.verdicts as
  select v.episode_id, nullif(v.step_id, '') as step_id, m.method, m.version, m.params, v.keep, v.reason, v.detail, v.method_key
  from facts.verdicts v join facts.judged_methods m using (method_key);
comment on view traj.verdicts is 'A filter said keep or drop, and why. step_id is null for verdicts on whole episodes.';

create view traj.scores as
  select s.key, case when s.key like 'e/%' then substr(s.key, 3) end as episode_id, case when s.key like 'g/%' then substr(s.key, 3) end as group_id,
         m.method, m.version, m.params, s.value, s.reason, s.detail, s.method_key
  from facts.scores s join facts.judged_methods m using (method_key);
comment on view traj.scores is 'A number about an episode or a group.';

create view traj.rewards as
  select r.episode_id, nullif(r.step_id, '') as step_id, m.method, m.version, m.params, r.value, r.reason, r.method_key
  from facts.rewards r join facts.judged_methods m using (method_key);
comment on view traj.rewards is 'Computed rewards, a number for each candidate; the recorded ones are in traj.feedback.';

create view traj.credits as
  select c.episode_id, c.step_id, m.method, m.version, m.params, c.value, c.reason, c.method_key
  from facts.credits c join facts.judged_methods m using (method_key);
comment on view traj.credits is 'A number for each step (an advantage), by method and parameters, side by side. reason says group_of_one, zero_variance or missing_reward where that was so.';

create view traj.blames as
  select b.episode_id, m.method, m.version, m.params, b.agent_id, b.step_id, b.entry, b.value, b.reason, b.method_key
  from facts.blames b join facts.judged_methods m using (method_key);
comment on view traj.blames is 'An attribution of failure: agent, step, how sure.';

create view traj.datasets as
  select dataset_id, name, sha256, uri, manifest, frozen_at from facts.datasets;
comment on view traj.datasets is 'Frozen recipes. The manifest says recipe, positions, hashes, funnel.';

create view traj.dataset_rows as
  select dataset_id, split, row, episode_id, call_id, candidate, call_id || '/' || candidate as step_id from facts.dataset_rows;
comment on view traj.dataset_rows is 'Which step or episode stands in which row of which dataset.';

create view traj.jobs as
  select job_id, kind, plan, parent_job_id, outcome, case when finished_at is not null or outcome is not null then 'finished' when started_version is not null then 'running' else 'requested' end as state,
         spec, result, error, worker, requested_at, started_at, finished_at
  from facts.jobs;
comment on view traj.jobs is 'Training runs and other work.';

create view traj.job_metrics as select job_id, step, name, value, at from facts.job_metrics;
comment on view traj.job_metrics is 'Numbers that jobs report, by step.';

create view traj.checkpoints as
  select checkpoint_id, parent_id, policy, uri, sha256, step, dataset_ids, job_id, kept, config, metrics, code_version, saved_at from facts.checkpoints;
comment on view traj.checkpoints is 'Weights with their lineage. kept is false for live weights between two checkpoints, whose files are gone.';

create view traj.releases as
  select r.release_id, p.key as policy, p.value as checkpoint_id, r.reason, r."by", r.metrics, r.released_at
  from facts.releases r cross join lateral json_each_text(r.policies) p;
comment on view traj.releases is 'Which checkpoint each policy was given, and when. A release is an atomic map; rolling back restores the whole map.';

create view traj.lineage as
  select c.checkpoint_id, 'trained on' as relation, d.dataset_id, r.episode_id, r.call_id || '/' || r.candidate as step_id, null::text as other_checkpoint_id
  from facts.checkpoints c
  cross join lateral json_array_elements_text(c.dataset_ids) as d (dataset_id)
  join facts.dataset_rows r on r.dataset_id = d.dataset_id
  union all
  select c.checkpoint_id, 'child of', null, null, null, c.parent_id from facts.checkpoints c where c.parent_id is not null
  union all
  select c.checkpoint_id, 'spoke', null, s.episode_id, s.call_id || '/' || s.candidate, null
  from facts.calls c join facts.steps s using (episode_id, call_id)
  where c.checkpoint_id is not null;
comment on view traj.lineage is 'From an event to a checkpoint and back. relation: trained on (dataset, episode, step), child of (other_checkpoint_id), spoke (episode, step).';

create view traj.events as
  select key, source, id, 'troupe.' || name || '.v1' as type, time, data, partition, position, recorded_at from troupe.events;
comment on view traj.events is 'The log: every fact, immutable.';

create view traj.dead_letters as
  select dead_letter_id, door, place, code, field, expected, got, octet_length(raw) as bytes, attempts, first_at, last_at, replayed_at from troupe.dead_letters;
comment on view traj.dead_letters is 'What was refused, why, where it came from; the raw bytes are kept.';
