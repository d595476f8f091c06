/** Holds docs/analysis.md to the views: every query on the page runs, and every view has its section. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { postgresLog } from '../../../ingest/log/postgres.ts';
import { judge } from '../../../store/judging/judge.ts';
import { ask } from '../../../store/sql/sql.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';
import { anExecution } from '../support/events.ts';
import { attempt, feedback, marked, record, VIEWS } from './attempts.ts';

const page = readFileSync(join(import.meta.dirname, '../../../docs/analysis.md'), 'utf8');
const queries = [...page.matchAll(/```sql\n([\s\S]*?)```/g)].map(([, sql]) => sql as string);

let fresh: TestDatabase;
beforeAll(async () => {
  fresh = await freshDatabase();
  const says = [{ by: 'x', role: 'coder' }, { by: 'y' }];
  await record(
    fresh.db,
    attempt('a', { reward: 1, answer: '42', says, budgets: { tool_calls: 3 } }),
    attempt('b', { reward: 0, says: [{ by: 'x' }] }),
    anExecution('d'),
    [
      marked('a', 'c0/0', false),
      marked('a', 'c1/0', true),
      feedback('a', { kind: 'step', id: 'c0/0' }, { kind: 'reward', name: 'tidy', value: 0.5 }),
      feedback('b', { kind: 'step', id: 'c0/0' }, { kind: 'reward', name: 'tidy', value: 0.5 }),
      feedback('b', { kind: 'agent', id: 'x', entry: 0 }, { kind: 'failure', name: 'mistake', by: 'human' }),
    ],
  );
  const methods = [{ method: 'grpo_advantage' }, { method: 'drmas_advantage' }, { method: 'rloo_advantage' }];
  await judge(fresh.db, postgresLog(fresh.db), { methods, episodes: ['a', 'b', 'd'], now: () => new Date(0) });
});
afterAll(() => fresh.close());

it('asks every view', () => {
  expect(VIEWS.filter((view) => !queries.some((sql) => sql.includes(`traj.${view}`)))).toEqual([]);
});

it.each(queries.map((sql, i) => [`${i + 1}: ${sql.split('\n')[0]}`, sql] as const))('query %s', async (_, sql) => {
  const answer = await ask(fresh.db, sql);
  expect(answer.columns.length).toBeGreaterThan(1);
  expect(answer.rows.length).toBeGreaterThan(0);
});
