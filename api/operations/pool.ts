/** The pool: the best team for each kind of query. */
import { Type } from 'typebox';
import { nullable } from './fields.ts';
import { defaulted, local, operation, written } from './operation.ts';

const ids = Type.Array(Type.String());

export const pool = operation({
  name: 'pool',
  notes:
    "Queries that ask nearly the same are one cluster; of the teams that were played on every query of a cluster, the one of the highest total reward is the cluster's. A team that was made from another (its tag base_team_id) takes its place on a query where it runs and does no worse. Each query that is kept gives a triplet: query, reasoning (the tag reasoning of the team), team.",
  examples: [{}, { embedding_model: 'all-MiniLM-L6-v2', min_score: 0.5 }],
  input: {
    embedding_model: Type.Optional(
      Type.String({
        ...{ minLength: 1, maxLength: 512, pattern: '^[^\\u0000]*$' },
        description: 'compare queries by the embeddings of this model: troupe passes embed',
      }),
    ),
    min_score: defaulted(
      written(
        Type.Union([Type.Number(), Type.Null()], {
          description: 'minimum mean reward of a query with its team; none: no minimum',
        }),
        { value: 'number', parse: scoreOf, text: (score) => score ?? 'none' },
      ),
      1,
    ),
    triplets: Type.Optional(
      local(Type.String({ description: 'file to write the triplets to, one JSON object per line' }), 'only', {
        value: 'file',
      }),
    ),
  },
  output: Type.Object({
    teams: ids,
    clusters: Type.Array(
      Type.Object({
        ...{ cluster: Type.String(), queries: ids },
        competing: Type.Array(Type.String(), { description: 'teams that were played on every query' }),
        unplayed: Type.Record(Type.String(), ids, { description: 'the others, with what they were not played on' }),
        team: nullable(Type.String({ description: 'the one of the highest total' })),
        ...{ total: nullable(Type.Number()), kept: ids, reason: nullable(Type.String()) },
      }),
    ),
    refinements: Type.Array(
      Type.Object({
        ...{ task_id: Type.String(), base_team_id: Type.String(), team_id: Type.String() },
        ...{ base_score: Type.Number(), refined_score: nullable(Type.Number()) },
        ...{ executable: Type.Boolean(), accepted: Type.Boolean() },
      }),
    ),
    triplets: Type.Array(
      Type.Object({
        ...{ task_id: Type.String(), query: nullable(Type.String()), reasoning: nullable(Type.String()) },
        ...{ team_id: Type.String(), cluster: Type.String(), score: Type.Number() },
        refined_from: nullable(Type.String()),
      }),
    ),
    left_out: Type.Record(Type.String(), ids, { description: 'episodes that count nowhere, by reason' }),
  }),
  scope: 'read',
  changes: false,
  body: true,
  run: async () => (await import('./pool/run.ts')).pool,
  text: async () => (await import('./pool/text.ts')).chosen,
});

function scoreOf(text: string): number | null {
  if (text === 'none') return null;
  const value = Number(text);
  if (text.trim() !== '' && Number.isFinite(value)) return value;
  throw new Error('should be a number or none');
}
