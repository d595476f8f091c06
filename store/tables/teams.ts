import { unmapped } from './projection.ts';
import { group, table } from './table.ts';

export const teams = table('teams', 'Versions of teams: agents, prompts and wiring.', {
  keys: { team_id: 'text' },
  groups: [
    group('team.defined', {
      columns: {
        name: 'text',
        team_version: 'text',
        agents: 'json',
        edges: 'json',
        content_hash: 'text',
        tags: 'jsonb',
        unmapped: ['json', unmapped],
      },
    }),
  ],
});
