--! roles of agents that were given none, and flags of tool results
-- Only the views change: facts keep the role that was given, so that it stays known which role is a name.
create or replace view traj.agents as
  select episode_id, agent_id, coalesce(name, agent_id) as agent, coalesce(role, name, agent_id collate "default") as role, parent_agent_id, depth, model, policy,
         system_instructions, tools, params, unmapped, case when role is null then 'agent name' else 'given' end as role_source
  from facts.agents;
comment on column traj.agents.role is 'the role that was given; where none was, the name of the agent';
comment on column traj.agents.role_source is 'given, or agent name where no role was given';

create or replace view traj.steps as
  select s.episode_id, s.call_id || '/' || s.candidate as step_id, s.call_id, s.candidate,
         coalesce(c.completed_agent_id, c.requested_agent_id) as agent_id,
         coalesce(a.name, c.completed_agent_id, c.requested_agent_id) as agent,
         coalesce(c.completed_role, c.requested_role, a.role, a.name, c.completed_agent_id collate "default", c.requested_agent_id) as role,
         coalesce(c.completed_turn, c.requested_turn) as turn,
         coalesce(c.requested_seq, c.completed_seq) as seq,
         e.task_id, e.group_id, e.team_id,
         s.text, s.content, s.finish_reason, s.token_ids, s.logprobs, s.loss_mask, s.chosen, s.parent_step_id,
         c.prompt_token_ids, c.model, c.response_model, c.policy, c.checkpoint_id, c.model_version, c.temperature, c.seed,
         c.input_tokens, c.output_tokens, c.latency_ms, c.error, c.requested_at, c.completed_at,
         case when coalesce(c.completed_role, c.requested_role, a.role) is not null then 'given'
              when coalesce(c.completed_agent_id, c.requested_agent_id) is not null then 'agent name' end as role_source
  from facts.steps s
  join facts.calls c using (episode_id, call_id)
  left join facts.episodes e using (episode_id)
  left join facts.agents a on a.episode_id = s.episode_id and a.agent_id = coalesce(c.completed_agent_id, c.requested_agent_id);
comment on column traj.steps.role is 'the role that the call or the agent was given; where none was, the name of the agent';
comment on column traj.steps.role_source is 'given, or agent name where no role was given; null where the agent is unknown';

create or replace view traj.role_performance as
  with present as (
    select c.episode_id, coalesce(c.completed_role, c.requested_role, a.role, a.name, c.completed_agent_id collate "default", c.requested_agent_id) as role
    from facts.calls c
    left join facts.agents a on a.episode_id = c.episode_id and a.agent_id = coalesce(c.completed_agent_id, c.requested_agent_id)
    union
    select a.episode_id, coalesce(a.role, a.name, a.agent_id collate "default") from facts.agents a
    where a.role is not null or not exists (
      select from facts.calls c where c.episode_id = a.episode_id and coalesce(c.completed_agent_id, c.requested_agent_id) = a.agent_id)
  ),
  tasks as (
    select task_id, count(*) as episodes, count(solved) as known, count(*) filter (where solved) as solved from traj.outcomes group by task_id
  ),
  own as (
    select p.role, o.task_id, count(*) as episodes, count(o.solved) as known, count(*) filter (where o.solved) as solved
    from present p join traj.outcomes o using (episode_id) where p.role is not null group by p.role, o.task_id
  )
  select w.role, sum(w.episodes)::bigint as episodes, sum(w.known)::bigint as known, sum(w.solved)::bigint as solved,
         (sum(w.solved) / nullif(sum(w.known), 0))::double precision as solve_rate,
         coalesce(sum(t.known - w.known), 0)::bigint as known_without, coalesce(sum(t.solved - w.solved), 0)::bigint as solved_without,
         (sum(t.solved - w.solved) / nullif(sum(t.known - w.known), 0))::double precision as solve_rate_without,
         count(*) filter (where w.known > 0 and t.known > w.known) as tasks_compared,
         avg(case when w.known > 0 and t.known > w.known then w.solved::double precision / w.known - (t.solved - w.solved)::double precision / (t.known - w.known) end) as difference
  from own w left join tasks t using (task_id)
  group by w.role;

-- The other views name the role of an agent beside its name: the same fallback, written into each as it stands.
do $$
declare
  name text;
  before text;
  after text;
begin
  foreach name in array array['traj.local_rewards', 'traj.failures', 'traj.execution_authors', 'traj.corrections', 'traj.agent_shares'] loop
    before := pg_get_viewdef(name::regclass);
    after := replace(before, 'COALESCE(c.completed_role, c.requested_role, a.role)', 'COALESCE(c.completed_role, c.requested_role, a.role, a.name, a.agent_id COLLATE "default")');
    after := replace(after, 'COALESCE(c.role, a.role)', 'COALESCE(c.role, a.role, a.name, a.agent_id COLLATE "default")');
    after := replace(after, 'b.role AS after_role', 'COALESCE(b.role, b.name, b.agent_id COLLATE "default") AS after_role');
    after := replace(after, E'    a.role,\n', E'    COALESCE(a.role, a.name, a.agent_id COLLATE "default") AS role,\n');
    if after = before then
      raise exception 'the view % does not name a role as expected', name;
    end if;
    execute format('create or replace view %s as %s', name, after);
  end loop;
end $$;

-- What an importer notices about a result, such as an error reported under status ok.
alter table facts.tool_calls add column returned_flags json;
create or replace view traj.tool_calls as
  select episode_id, tool_call_id, call_id, index, agent_id, name, type, arguments, arguments_raw, parse_error, status, output, error,
         duration_ms, from_cache, truncated, turn, seq, called_at, returned_at, returned_flags as flags
  from facts.tool_calls;
comment on column traj.tool_calls.flags is 'of the result: apparent_error = the output reports an error though the source says ok, by the rules of its format';
