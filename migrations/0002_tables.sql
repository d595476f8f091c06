--! the tables: what the projector makes of the events, and what methods said about it
-- Everything in schema facts can be thrown away and made again from troupe.events. Each group of columns is owned by one event type and
-- carries the version (time|id) of the event that wrote it, so the order of arrival does not matter.
-- Values with a closed list are checked; a test compares the lists with those of the code. Kinds that a producer may name freely (of
-- decisions, observations and jobs) stay open.
create schema facts;

create table facts.tasks (
  task_id text collate "C" primary key,
  query text, content json, ground_truth json, reference json, tests json, constraints json,
  origin text, split text, difficulty text, domain text, tags jsonb, unmapped json,
  version text collate "C" not null
);
create index tasks_tags on facts.tasks using gin (tags) where tags is not null;

-- A trace says what its task is from all its spans, so what it says may change; another trace of the same task may say it otherwise.
-- tasks shows one of them, the last by version: this is what the others say, in case that one is taken back.
create table facts.told_tasks (
  episode_id text collate "C" not null,
  task_id text collate "C" not null,
  told json not null,
  version text collate "C" not null,
  primary key (episode_id, task_id)
);
create index on facts.told_tasks (task_id);

create table facts.teams (
  team_id text collate "C" primary key,
  name text, team_version text, agents json, edges json, content_hash text, tags jsonb, unmapped json,
  version text collate "C" not null
);

create table facts.episodes (
  episode_id text collate "C" primary key,
  -- episode.started; task_id and group_id are what it names and, where it names none, what the calls name
  task_id text collate "C", attempt integer, group_id text collate "C", group_size integer, session_id text, team_id text collate "C",
  env_id text, parent_episode_id text collate "C", policies jsonb, budgets json, tags jsonb, flags jsonb, unmapped json,
  raw_artifact_id text, started_at timestamptz, started_version text collate "C",
  -- episode.finished
  outcome text check (outcome in ('success', 'failure', 'error', 'timeout', 'aborted', 'unknown')),
  answer text, final json, stop_reason text, exit_status text, totals json,
  finished_at timestamptz, finished_version text collate "C",
  -- recomputed from the episode's own rows whenever one of them changes
  reward double precision, agents integer, calls integer, steps integer, tool_calls integer, messages integer, feedback integer,
  input_tokens bigint, output_tokens bigint, closed boolean, last_at timestamptz,
  -- It grows with every change, so whoever has read the episode can tell that it changed since. It is no place in the log.
  revision bigint,
  started_task_id text collate "C", started_group_id text collate "C",
  -- Who spoke in it, recomputed too.
  spoke_policies text[], spoke_checkpoints text[], spoke_weights text[],
  -- 2 for a task that was named, 1 for one that is the hash of a text, 0 for none, then the version of its event: a name beats a text.
  task_version text collate "C"
);
comment on column facts.episodes.spoke_weights is 'of each call its checkpoint_id, else its response_model, else its model; sorted, each once; null where no call names any';
create index on facts.episodes (task_id);
create index on facts.episodes (group_id);
-- Lists show the newest first.
create index on facts.episodes ((coalesce(coalesce(started_at, last_at), '-infinity'::timestamptz)) desc, episode_id desc);
create index episodes_tags on facts.episodes using gin (tags) where tags is not null;

create table facts.agents (
  episode_id text collate "C" not null, agent_id text collate "C" not null,
  name text, role text, parent_agent_id text, depth integer, model text, policy text, system_instructions text, tools json, params json,
  unmapped json, version text collate "C",
  primary key (episode_id, agent_id)
);

create table facts.calls (
  episode_id text collate "C" not null, call_id text collate "C" not null,
  -- generation.requested
  requested_agent_id text, requested_role text, requested_turn integer, model text, params json, tools json,
  parent_call_id text, copied boolean, requested_seq bigint, requested_unmapped json,
  requested_at timestamptz, requested_version text collate "C",
  -- generation.completed
  completed_agent_id text, completed_role text, completed_turn integer, response_id text, response_model text, policy text,
  checkpoint_id text, model_version text, prompt_token_ids integer[], input_tokens bigint, output_tokens bigint, usage json,
  latency_ms double precision, cached boolean, seed bigint, temperature double precision, error json, completed_seq bigint,
  completed_flags json, completed_unmapped json, completed_at timestamptz, completed_version text collate "C",
  -- generation.requested; the gateway's headers Troupe-Task and Troupe-Group stand with the call
  task_id text collate "C", group_id text collate "C",
  -- the last message of its context in troupe.bodies
  context uuid,
  primary key (episode_id, call_id)
);
create index on facts.calls (response_id) where response_id is not null;
create index on facts.calls (checkpoint_id) where checkpoint_id is not null;

-- One row for each candidate output. Here, and for judgements below, the key is names of up to 160 bytes which an index of it would repeat
-- for each row: a hash of them keeps rows apart, and an index of what they have in common finds them.
create table facts.steps (
  episode_id text collate "C" not null, call_id text collate "C" not null, candidate integer not null,
  text text, content json, finish_reason text, token_ids integer[], logprobs real[], loss_mask smallint[],
  chosen boolean, parent_step_id text, version text collate "C" not null,
  -- U+FFFE escapes what PostgreSQL cannot hold and is followed by hexadecimal digits there, so three texts are joined in one way only.
  constraint steps_once exclude using hash ((episode_id || E'\uFFFE|' || call_id || E'\uFFFE|' || candidate) with =)
);
create index steps_of_call on facts.steps (episode_id, call_id);

create table facts.messages (
  episode_id text collate "C" not null, message_id text collate "C" not null,
  sender text, receivers json, role text, text text, content json, channel text, in_reply_to text, call_id text,
  turn integer, seq bigint, sent_at timestamptz, flags json, unmapped json, version text collate "C" not null,
  primary key (episode_id, message_id)
);

create table facts.tool_calls (
  episode_id text collate "C" not null, tool_call_id text collate "C" not null,
  -- tool.called
  call_id text, tool_index integer, agent_id text, name text, type text, arguments json, arguments_raw text, parse_error text,
  turn integer, seq bigint, called_unmapped json, called_at timestamptz, called_version text collate "C",
  -- tool.returned; its flags are what an importer notices, such as an error reported under status ok
  status text check (status in ('ok', 'error', 'timeout', 'denied', 'cancelled')),
  output json, error json, duration_ms double precision, from_cache boolean, truncated boolean, returned_seq bigint,
  returned_unmapped json, returned_at timestamptz, returned_version text collate "C", returned_flags json,
  -- tool.called
  parent_tool_call_id text collate "C",
  primary key (episode_id, tool_call_id)
);

-- Feedback lives under the key of its target; feedback for a foreign id waits here until its target is known.
create table facts.feedback (
  key text collate "C" not null, feedback_id text collate "C" not null,
  episode_id text collate "C",
  target_kind text not null
    check (target_kind in ('episode', 'agent', 'call', 'step', 'message', 'tool_call', 'task', 'group', 'pair', 'checkpoint', 'foreign')),
  target_id text, other_id text, entry integer,
  kind text not null check (kind in ('reward', 'score', 'label', 'preference', 'failure', 'execution')),
  name text not null, value double precision, value_json json, label text, matrix json, taxonomy json,
  author text, annotator text, explanation text, confidence double precision, flags json, unmapped json,
  occurred_at timestamptz, version text collate "C" not null,
  -- set by the resolver, for foreign targets only
  resolved_episode_id text collate "C", resolved_call_id text,
  primary key (key, feedback_id)
);
create index on facts.feedback ((coalesce(episode_id, resolved_episode_id)));
create index on facts.feedback (resolved_episode_id) where target_kind = 'foreign' and resolved_episode_id is not null;

create table facts.decisions (
  episode_id text collate "C" not null, event_source text collate "C" not null, event_id text collate "C" not null,
  author text, kind text not null, decision json, turn integer, seq bigint, occurred_at timestamptz, unmapped json,
  version text collate "C" not null,
  primary key (episode_id, event_source, event_id)
);

create table facts.observations (
  episode_id text collate "C" not null, event_source text collate "C" not null, event_id text collate "C" not null,
  kind text not null, content json, state json, call_id text, turn integer, seq bigint, occurred_at timestamptz, unmapped json,
  version text collate "C" not null,
  primary key (episode_id, event_source, event_id)
);

create table facts.artifacts (
  key text collate "C" not null, artifact_id text collate "C" not null,
  episode_id text collate "C",
  role text not null check (role in ('patch', 'code', 'file', 'image', 'log', 'raw-record', 'checkpoint', 'dataset')),
  media_type text, sha256 text, size bigint, uri text, name text, target json, version text collate "C" not null,
  primary key (key, artifact_id)
);

create table facts.jobs (
  job_id text collate "C" primary key,
  kind text, spec json, plan text, parent_job_id text, requested_at timestamptz, requested_version text collate "C",
  worker text, token bigint, started_at timestamptz, started_version text collate "C",
  outcome text check (outcome in ('done', 'failed', 'cancelled')),
  result json, error json, finished_at timestamptz, finished_version text collate "C"
);

create table facts.job_metrics (
  job_id text collate "C" not null, step bigint not null, name text collate "C" not null, value double precision,
  occurred_at timestamptz, version text collate "C" not null,
  primary key (job_id, step, name)
);

create table facts.checkpoints (
  checkpoint_id text collate "C" primary key,
  parent_id text collate "C", policy text, uri text, sha256 text, step bigint, dataset_ids json, job_id text, kept boolean,
  config json, metrics json, code_version text, saved_at timestamptz, version text collate "C" not null
);

create table facts.releases (
  release_id text collate "C" primary key,
  policies json not null, reason text, author text, metrics json, released_at timestamptz, version text collate "C" not null,
  -- Versions of teams that it names beside the checkpoints of policies.
  teams json
);

create table facts.datasets (
  dataset_id text collate "C" primary key,
  name text, sha256 text, uri text, manifest json, frozen_at timestamptz, version text collate "C" not null
);

-- Rows that are candidates of one call stand in one row here: "row" is that of the first, the others follow it.
create table facts.dataset_rows (
  dataset_id text collate "C" not null, split text not null, row integer not null,
  episode_id text collate "C" not null, call_id text collate "C", candidates integer[] not null,
  primary key (dataset_id, split, row)
);
create index on facts.dataset_rows (episode_id);

-- Judgements: recomputed from what each judge.completed event says. A method with its version and parameters is named once; the same method
-- with other parameters stands beside it, so that estimators are compared in SQL.
create table facts.judged_methods (
  method_key text collate "C" primary key,
  method text not null, version integer not null,
  kind text not null check (kind in ('filter', 'score', 'reward', 'credit', 'process', 'blame', 'loss')),
  params json not null
);

create table facts.judgings (
  judge_id text collate "C" primary key,
  methods json not null, episodes json not null, judged_at timestamptz, version text collate "C" not null
);

create table facts.verdicts (
  episode_id text collate "C" not null, step_id text collate "C" not null, method_key text collate "C" not null,
  keep boolean, reason text, detail json,
  constraint verdicts_once exclude using hash ((episode_id || E'\uFFFE|' || step_id || E'\uFFFE|' || method_key) with =)
);
create index verdicts_of_episode on facts.verdicts (episode_id, method_key);

create table facts.scores (
  key text collate "C" not null, method_key text collate "C" not null,
  value double precision, reason text, detail json,
  primary key (key, method_key)
);

-- detail, here and below: what does not fit into one number, such as an advantage for each token or the parts of a reward.
create table facts.rewards (
  episode_id text collate "C" not null, step_id text collate "C" not null, method_key text collate "C" not null,
  value double precision, reason text, detail json,
  constraint rewards_once exclude using hash ((episode_id || E'\uFFFE|' || step_id || E'\uFFFE|' || method_key) with =)
);
create index rewards_of_episode on facts.rewards (episode_id, method_key);

create table facts.credits (
  episode_id text collate "C" not null, step_id text collate "C" not null, method_key text collate "C" not null,
  value double precision, reason text, detail json,
  constraint credits_once exclude using hash ((episode_id || E'\uFFFE|' || step_id || E'\uFFFE|' || method_key) with =)
);
create index credits_of_episode on facts.credits (episode_id, method_key);

-- A method may blame several agents, each with its share: rank 0 is the first.
create table facts.blames (
  episode_id text collate "C" not null, method_key text collate "C" not null,
  agent_id text, step_id text, entry integer, value double precision, reason text,
  rank integer not null default 0, detail json,
  primary key (episode_id, method_key, rank)
);

select troupe.without_statistics('facts');

-- Functions of the views, which are in views/.

create function troupe.seq_of(given bigint, occurred_at timestamptz, turn integer) returns bigint language sql stable parallel safe as $$
  select coalesce(given, (extract(epoch from occurred_at) * 1000000)::bigint, turn, 0)
$$;
comment on function troupe.seq_of is 'The place of something in the order of its episode: the number of its source, else its time in microseconds, else its turn.';

-- Whoever sends an event may give a text beside the object that is none.
create function troupe.json_or(written text, otherwise json) returns json language plpgsql immutable as $$
begin
  return written::json;
exception when data_exception then
  return otherwise;
end $$;
comment on function troupe.json_or is 'The text as JSON, or what is given where it is none.';

-- One function for the view and for filters, so that both say the same. It is inlined: it reads only the row.
create function troupe.untrainable(
  copied boolean, error json, flags json, token_ids integer[], prompt_token_ids integer[], logprobs real[], checkpoint_id text, model_version text, params json
) returns text language sql immutable parallel safe as $$
  select case
    when copied then 'copied'
    when error is not null then 'call_failed'
    when position('"incomplete"' in flags::text) > 0 then 'incomplete'
    when position('"lost_token_ids"' in flags::text) > 0 and token_ids is null then 'lost_token_ids'
    when token_ids is null then 'no_token_ids'
    when cardinality(token_ids) = 0 then 'no_tokens'
    when coalesce(cardinality(prompt_token_ids), 0) = 0 then 'no_prompt_token_ids'
    when coalesce(cardinality(logprobs), 0) <> cardinality(token_ids) then 'no_logprobs'
    when checkpoint_id is null and model_version is null then 'unknown_weights'
    when coalesce(params #>> '{response_format,type}', params #>> '{text,format,type}', 'text') <> 'text'
      or coalesce(case json_typeof(params -> 'tool_choice') when 'object' then coalesce(params #>> '{tool_choice,type}', '') else params ->> 'tool_choice' end, 'auto') not in ('auto', 'none')
      or coalesce(params -> 'structured_outputs', params -> 'guided_json', params -> 'guided_regex', params -> 'guided_choice', params -> 'guided_grammar') is not null
      then 'constrained'
    when case json_typeof(params -> 'temperature') when 'number' then (params ->> 'temperature')::numeric = 0 end then 'greedy'
    when case json_typeof(params -> 'top_p') when 'number' then (params ->> 'top_p')::numeric < 1 end
      or case json_typeof(params -> 'top_k') when 'number' then (params ->> 'top_k')::numeric > 0 end
      or case json_typeof(params -> 'min_p') when 'number' then (params ->> 'min_p')::numeric > 0 end
      then 'truncated'
  end
$$;
comment on function troupe.untrainable is 'Why a step cannot be trained on as sampled; null where it can.';

-- Views that readers see: stable names. Additive: a changed meaning would be a schema traj2 beside this one.
create schema traj;
comment on schema traj is 'Trajectories for analysts: stable, documented views. Keys: episode_id, step_id (= call_id/candidate), call_id, task_id, group_id, team_id, agent_id, checkpoint_id.';

-- The call of a step id, which is call/candidate; null for null.
create function traj.call_of(step_id text) returns text language sql immutable parallel safe
return left(rtrim(step_id, '0123456789'), -1);
comment on function traj.call_of(text) is 'The call_id in a step_id.';

-- Each report answers one question over the tables and can be filtered further. A rate over nothing, and what nobody recorded, is null.
-- The same team answers with other weights after each round of training, and tasks of the training split are drawn anew each round: a rate
-- over all of that can have the opposite sign of every part of it. Each report of rates therefore has a row for each team, split, policy
-- and weights, compares only what the same weights did, and says in its comment what a row still pools.
create schema report;
comment on schema report is 'Answers to questions about trajectories: rates, comparisons, costs, agreement, failures. Each is made of the tables behind traj; report.outcomes says what counts as solved.';

-- pass@k is a product of ratios near 1, which sums of logarithms round and factorials overflow.
create aggregate report.product(double precision) (
  sfunc = pg_catalog.float8mul, stype = double precision, initcond = '1', parallel = safe
);
comment on aggregate report.product(double precision) is 'Product of the numbers, 1 for none.';

create function report.plain_answer(answer text) returns text language sql immutable parallel safe
return nullif(regexp_replace(btrim(regexp_replace(regexp_replace(btrim(answer, E' \t\r\n'), '\s*\.$', ''), '^\$|\$$', '', 'g')), '\s+', ' ', 'g'), '');
comment on function report.plain_answer(text) is 'An answer without surrounding space, final full stop, dollar signs and doubled spaces; null for an empty one.';

-- Cells are compared as texts with a letter for each: a set-returning function for each program costs ten times that. Both functions
-- are expressions without a subquery, so that the planner puts them into the query.
create function report.cell_letters(cells json, tests integer) returns text language sql immutable parallel safe
return rpad(translate(replace(coalesce(cells::text, ''), 'null', 'n'), E'[], \t\r\n', ''), tests, 'n');
comment on function report.cell_letters(json, integer) is 'The cells of a program as a letter for each test: 1 passed, 0 failed, n not run.';

create function report.passes_truth(letters text, truth text) returns boolean language sql immutable parallel safe
return case when truth is null or strpos(truth, '1') = 0 then null
            when letters like truth then true
            when letters ~ replace(replace(truth, '1', '[1n]'), '_', '.') then null
            else false end;
comment on function report.passes_truth(text, text) is 'Whether a program with these cells passed every ground-truth test, which are 1 in truth, the others _; null where there is none, or one was not run and none failed.';
