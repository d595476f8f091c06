--! judgements: what methods said about the facts
-- Recomputed from what each judge.completed event says. A method with its version and parameters is named once; the same method
-- with other parameters stands beside it, so that estimators are compared in SQL.
create table facts.judged_methods (
  method_key text collate "C" primary key,
  method text not null, version integer not null, kind text not null, params json not null
);

create table facts.judgings (
  judge_id text collate "C" primary key,
  methods json not null, episodes json not null, judged_at timestamptz, version text collate "C" not null
);

create table facts.verdicts (
  episode_id text collate "C" not null, step_id text collate "C" not null, method_key text collate "C" not null,
  keep boolean, reason text, detail json,
  primary key (episode_id, step_id, method_key)
) partition by hash (episode_id);

create table facts.scores (
  key text collate "C" not null, method_key text collate "C" not null,
  value double precision, reason text, detail json,
  primary key (key, method_key)
) partition by hash (key);

create table facts.rewards (
  episode_id text collate "C" not null, step_id text collate "C" not null, method_key text collate "C" not null,
  value double precision, reason text,
  primary key (episode_id, step_id, method_key)
) partition by hash (episode_id);

create table facts.credits (
  episode_id text collate "C" not null, step_id text collate "C" not null, method_key text collate "C" not null,
  value double precision, reason text,
  primary key (episode_id, step_id, method_key)
) partition by hash (episode_id);

create table facts.blames (
  episode_id text collate "C" not null, method_key text collate "C" not null,
  agent_id text, step_id text, entry integer, value double precision, reason text,
  primary key (episode_id, method_key)
) partition by hash (episode_id);

-- What each episode looked like when it was last judged: arrival state, not a fact.
create table troupe.judged_positions (
  episode_id text collate "C" not null, judge_set text not null, position bigint not null,
  primary key (episode_id, judge_set)
);

do $$
declare t text;
begin
  foreach t in array array['verdicts','scores','rewards','credits','blames'] loop
    for i in 0..15 loop
      execute format('create table facts.%I partition of facts.%I for values with (modulus 16, remainder %s)', t || '_' || i, t, i);
    end loop;
  end loop;
end $$;
