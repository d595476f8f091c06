/** Teams, their versions and their likeness. */
import { Type } from 'typebox';
import { named, nullable } from './fields.ts';
import { listInput, listOf } from './lists.ts';
import { operation } from './operation.ts';

const does = () => import('./teams/run.ts');
const prints = () => import('./teams/text.ts');
const Amount = nullable(Type.Number());

export const list = operation({
  name: 'teams.list',
  about: 'list teams',
  examples: [{}],
  input: listInput(['team_id', 'episodes', 'name']),
  output: listOf(
    Type.Object({
      team_id: Type.String(),
      name: nullable(Type.String()),
      team_version: nullable(Type.String()),
      ...{ agents: Amount, edges: Amount, episodes: Type.Integer(), rated: Type.Integer(), mean_reward: Amount },
    }),
  ),
  scope: 'read',
  changes: false,
  run: async () => (await does()).list,
  text: async () => (await prints()).listed,
});

export const like = operation({
  name: 'teams.like',
  about: 'list the other teams, the most like one first',
  notes:
    'Two teams are alike as far as they have the same roles and the same wiring between roles; names of agents and prompts do not count.',
  examples: [{ team: 'debate-3' }],
  input: { team: named('a team id') },
  output: Type.Object({
    team_id: Type.String(),
    teams: Type.Array(
      Type.Object({
        team_id: Type.String(),
        name: nullable(Type.String()),
        score: Amount,
        roles: Amount,
        wiring: Amount,
        reason: nullable(Type.String({ description: 'why they cannot be compared' })),
      }),
    ),
  }),
  scope: 'read',
  changes: false,
  run: async () => (await does()).like,
  text: async () => (await prints()).alike,
});

export const show = operation({
  name: 'teams.show',
  about:
    'show the version of a team that its program plays in: the released one, or in the share of a canary its candidate',
  examples: [{ team: 'solvers' }],
  input: {
    team: named('name of the team'),
    episode: Type.Optional(Type.String({ description: 'id of the live episode that it is for' })),
    group: Type.Optional(Type.String({ description: 'its group, whose episodes play in one version' })),
  },
  output: Type.Object({
    team_id: Type.String(),
    name: Type.String(),
    definition: Type.Record(Type.String(), Type.Unknown()),
  }),
  scope: 'read',
  changes: false,
  live: true,
  run: async () => (await does()).show,
  text: async () => (await prints()).shown,
});
