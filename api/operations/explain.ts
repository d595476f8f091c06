/** The plan of a query. */
import { Type } from 'typebox';
import { operation } from './operation.ts';
import { query, timeout } from './sql/fields.ts';

export const explain = operation({
  name: 'explain',
  examples: [{ sql: "select * from traj.steps where agent = 'solver'" }],
  input: { sql: query, timeout_ms: timeout },
  output: Type.Object({ plan: Type.Array(Type.String(), { description: 'its lines' }) }),
  scope: 'sql',
  changes: false,
  body: true,
  live: true,
  run: async () => (await import('./sql/run.ts')).explained,
  text:
    async () =>
    ({ plan }) =>
      plan.join('\n'),
});
