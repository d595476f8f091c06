create view traj.teams as
  select team_id, name, team_version, agents, edges, content_hash, tags, unmapped from facts.teams;

comment on view traj.teams is 'Multi-agent systems: members, wiring, version.';
