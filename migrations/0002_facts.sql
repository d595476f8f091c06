--! the tables: what the projector makes of the events
-- Everything in this schema can be thrown away and made again from troupe.events. Each group of columns is owned by one event
-- type and carries the version (time|id) of the event that wrote it, so the order of arrival does not matter.
create schema facts;

create table facts.tasks (
  task_id text collate "C" primary key,
  query text, content json, ground_truth json, reference json, tests json, constraints json,
  origin text, split text, difficulty text, domain text, tags json, unmapped json,
  version text collate "C" not null
);

create table facts.teams (
  team_id text collate "C" primary key,
  name text, team_version text, agents json, edges json, content_hash text, tags json, unmapped json,
  version text collate "C" not null
);

create table facts.episodes (
  episode_id text collate "C" not null primary key,
  -- episode.started
  task_id text collate "C", attempt integer, group_id text collate "C", group_size integer, session_id text, team_id text collate "C",
  env_id text, parent_episode_id text collate "C", policies json, budgets json, tags json, flags json, unmapped json,
  raw_artifact_id text, started_at timestamptz, started_version text collate "C",
  -- episode.finished
  outcome text, answer text, final json, stop_reason text, exit_status text, totals json,
  finished_at timestamptz, finished_version text collate "C",
  -- recomputed from the episode's own rows whenever one of them changes
  reward double precision, agents integer, calls integer, steps integer, tool_calls integer, messages integer, feedback integer,
  input_tokens bigint, output_tokens bigint, closed boolean, last_at timestamptz,
  -- arrival: the last position of the log that touched the episode
  touched_position bigint
) partition by hash (episode_id);
create index on facts.episodes (task_id);
create index on facts.episodes (group_id);
-- Lists show the newest first.
create index on facts.episodes ((coalesce(coalesce(started_at, last_at), '-infinity'::timestamptz)) desc, episode_id desc);

create table facts.agents (
  episode_id text collate "C" not null, agent_id text collate "C" not null,
  name text, role text, parent_agent_id text, depth integer, model text, policy text, system_instructions text, tools json, params json,
  unmapped json, version text collate "C",
  primary key (episode_id, agent_id)
) partition by hash (episode_id);

create table facts.calls (
  episode_id text collate "C" not null, call_id text collate "C" not null,
  -- generation.requested
  requested_agent_id text, requested_role text, requested_turn integer, model text, params json, input text[], tools json,
  parent_call_id text, copied boolean, requested_seq bigint, requested_unmapped json,
  requested_at timestamptz, requested_version text collate "C",
  -- generation.completed
  completed_agent_id text, completed_role text, completed_turn integer, response_id text, response_model text, policy text,
  checkpoint_id text, model_version text, prompt_token_ids integer[], input_tokens bigint, output_tokens bigint, usage json,
  latency_ms double precision, cached boolean, seed bigint, temperature double precision, error json, completed_seq bigint,
  completed_flags json, completed_unmapped json, completed_at timestamptz, completed_version text collate "C",
  primary key (episode_id, call_id)
) partition by hash (episode_id);
create index on facts.calls (response_id) where response_id is not null;
create index on facts.calls (checkpoint_id) where checkpoint_id is not null;

-- One row for each candidate output.
create table facts.steps (
  episode_id text collate "C" not null, call_id text collate "C" not null, candidate integer not null,
  text text, content json, finish_reason text, token_ids integer[], logprobs real[], loss_mask smallint[],
  chosen boolean, parent_step_id text, version text collate "C" not null,
  primary key (episode_id, call_id, candidate)
) partition by hash (episode_id);

-- A context repeats in every call of a conversation: its body is stored once for each episode.
create table facts.message_bodies (
  episode_id text collate "C" not null, hash text collate "C" not null, role text not null, name text, text text, content json,
  primary key (episode_id, hash)
) partition by hash (episode_id);

create table facts.messages (
  episode_id text collate "C" not null, message_id text collate "C" not null,
  sender text, receivers json, role text, text text, content json, channel text, in_reply_to text, call_id text,
  turn integer, seq bigint, sent_at timestamptz, flags json, unmapped json, version text collate "C" not null,
  primary key (episode_id, message_id)
) partition by hash (episode_id);

create table facts.tool_calls (
  episode_id text collate "C" not null, tool_call_id text collate "C" not null,
  -- tool.called
  call_id text, index integer, agent_id text, name text, type text, arguments json, arguments_raw text, parse_error text,
  turn integer, seq bigint, called_unmapped json, called_at timestamptz, called_version text collate "C",
  -- tool.returned
  status text, output json, error json, duration_ms double precision, from_cache boolean, truncated boolean, returned_seq bigint,
  returned_unmapped json, returned_at timestamptz, returned_version text collate "C",
  primary key (episode_id, tool_call_id)
) partition by hash (episode_id);

-- Feedback lives under the key of its target; feedback for a foreign id waits here until its target is known.
create table facts.feedback (
  key text collate "C" not null, feedback_id text collate "C" not null,
  episode_id text collate "C", target_kind text not null, target_id text, other_id text, entry integer,
  kind text not null, name text not null, value double precision, value_json json, label text, matrix json, taxonomy json,
  "by" text, annotator text, explanation text, confidence double precision, flags json, unmapped json,
  at timestamptz, version text collate "C" not null,
  -- set by the resolver, for foreign targets only
  resolved_episode_id text collate "C", resolved_call_id text,
  primary key (key, feedback_id)
) partition by hash (key);
create index on facts.feedback ((coalesce(episode_id, resolved_episode_id)));
create index on facts.feedback (resolved_episode_id) where target_kind = 'foreign' and resolved_episode_id is not null;
create index on facts.feedback (target_id) where target_kind = 'foreign' and resolved_episode_id is null;

create table facts.decisions (
  episode_id text collate "C" not null, event_source text collate "C" not null, event_id text collate "C" not null,
  "by" text, kind text not null, decision json, turn integer, seq bigint, at timestamptz, unmapped json, version text collate "C" not null,
  primary key (episode_id, event_source, event_id)
) partition by hash (episode_id);

create table facts.observations (
  episode_id text collate "C" not null, event_source text collate "C" not null, event_id text collate "C" not null,
  kind text not null, content json, state json, call_id text, turn integer, seq bigint, at timestamptz, unmapped json,
  version text collate "C" not null,
  primary key (episode_id, event_source, event_id)
) partition by hash (episode_id);

create table facts.artifacts (
  key text collate "C" not null, artifact_id text collate "C" not null,
  episode_id text collate "C", role text not null, media_type text, sha256 text, size bigint, uri text, name text, target json,
  version text collate "C" not null,
  primary key (key, artifact_id)
) partition by hash (key);

create table facts.jobs (
  job_id text collate "C" primary key,
  kind text, spec json, plan text, parent_job_id text, requested_at timestamptz, requested_version text collate "C",
  worker text, token bigint, started_at timestamptz, started_version text collate "C",
  outcome text, result json, error json, finished_at timestamptz, finished_version text collate "C"
);

create table facts.job_metrics (
  job_id text collate "C" not null, step bigint not null, name text collate "C" not null, value double precision, at timestamptz,
  version text collate "C" not null,
  primary key (job_id, step, name)
);

create table facts.checkpoints (
  checkpoint_id text collate "C" primary key,
  parent_id text collate "C", policy text, uri text, sha256 text, step bigint, dataset_ids json, job_id text, kept boolean,
  config json, metrics json, code_version text, saved_at timestamptz, version text collate "C" not null
);

create table facts.releases (
  release_id text collate "C" primary key,
  policies json not null, reason text, "by" text, metrics json, released_at timestamptz, version text collate "C" not null
);

create table facts.datasets (
  dataset_id text collate "C" primary key,
  name text, sha256 text, uri text, manifest json, frozen_at timestamptz, version text collate "C" not null
);

create table facts.dataset_rows (
  dataset_id text collate "C" not null, split text not null, row integer not null,
  episode_id text collate "C" not null, call_id text collate "C", candidate integer,
  primary key (dataset_id, split, row)
);
create index on facts.dataset_rows (episode_id);

do $$
declare t text; k text;
begin
  foreach t in array array['episodes','agents','calls','steps','message_bodies','messages','tool_calls','feedback','decisions','observations','artifacts'] loop
    for i in 0..15 loop
      execute format('create table facts.%I partition of facts.%I for values with (modulus 16, remainder %s)', t || '_' || i, t, i);
    end loop;
  end loop;
end $$;
