create view traj.agents as
  select episode_id, agent_id, coalesce(name, agent_id) as agent, coalesce(role, name, agent_id collate "default") as role, parent_agent_id, depth, model, policy,
         case when starts_with(system_instructions, E'\uFFFE#') then troupe.text_shown('e/' || episode_id, system_instructions) else system_instructions end collate "default" as system_instructions,
         tools, params, unmapped, case when role is null then 'agent name' else 'given' end as role_source
  from facts.agents;

comment on view traj.agents is 'Members of an episode. agent_id is unique in its episode; agent is the name.';
comment on column traj.agents.role is 'the recorded role, otherwise the name of the agent';
comment on column traj.agents.role_source is 'given, or agent name if no role was recorded';
