import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { postgresLog } from '../../../ingest/log/postgres.ts';
import { migrationsFolder } from '../../../migrations/migrate.ts';
import { judge, judgeAgain } from '../../../store/evaluate/judging/judge.ts';
import { rebuild } from '../../../store/projecting/rebuilding/rebuild.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';
import { anExecution, event } from '../support/events.ts';
import { attempt, feedback, marked, record, rowsOf, VIEWS } from './attempts.ts';

let fresh: TestDatabase;
beforeEach(async () => {
  fresh = await freshDatabase({ max: 8 });
});
afterEach(() => fresh.close());

/** Every view's rows as text, in an order of their own. */
/** A mean adds its numbers in the order in which rows lie, which a rebuild may change: its last digits are not compared. */
const rounded = (row: string): string => row.replace(/\d+\.\d{13,}/g, (number) => Number(number).toPrecision(13));

const answers = async () =>
  Object.fromEntries(
    await Promise.all(
      VIEWS.map(async (view) => {
        const rows = await rowsOf(fresh.db, `select v::text as row from report.${view} v order by 1`);
        return [view, rows.map(({ row }) => ({ row: rounded(String(row)) }))] as const;
      }),
    ),
  );

it('the list of views that these tests go through is the whole of schema report', () => {
  const order = readFileSync(join(migrationsFolder(), 'views/order.txt'), 'utf8');
  expect([...order.matchAll(/^report\.(\w+)/gm)].map(([, view]) => view).sort()).toEqual([...VIEWS].sort());
});

it('a rebuild keeps every view, also one that reads another, and each answers as before; so does the next rebuild', async () => {
  const log = postgresLog(fresh.db);
  const says = [{ by: 'x', role: 'coder', output_tokens: 3 }, { by: 'y' }, { by: 'x' }];
  await record(
    fresh.db,
    [
      event('task.defined', { task_id: 'task-1', ground_truth: '42' }),
      event('team.defined', { team_id: 'm', name: 'M' }),
    ],
    attempt('a', {
      team: 'm',
      reward: 1,
      answer: '42',
      says,
      budgets: { tool_calls: 3 },
      members: { x: { depth: 1 } },
    }),
    attempt('b', { team: 'm', reward: 0, answer: '41', says }),
    attempt('c', { outcome: 'failure', says: [{ by: 'x' }] }),
    anExecution('d'),
    [
      marked('a', 'c0/0', false),
      marked('a', 'c2/0', true),
      feedback('a', { kind: 'step', id: 'c0/0' }, { kind: 'reward', name: 'tidy', value: 0.5 }),
      feedback('c', { kind: 'agent', id: 'x', entry: 0 }, { kind: 'failure', name: 'FM-1.3', by: 'human' }),
    ],
  );
  const methods = [{ method: 'grpo_advantage' }, { method: 'rloo_advantage' }, { method: 'cosigned_rewards' }];
  const now = () => new Date(Date.UTC(2026, 9, 1));
  await judge(fresh.db, log, { methods, episodes: ['a', 'b', 'c', 'd'], now });
  const before = await answers();
  for (const view of VIEWS) expect(before[view]!.length, view).toBeGreaterThan(0);

  await rebuild(fresh.db, { judge: judgeAgain });
  expect(await answers()).toEqual(before);
  await rebuild(fresh.db, { judge: judgeAgain });
  expect(await answers()).toEqual(before);

  await record(fresh.db, attempt('e', { team: 'm', reward: 1, answer: '42', says }));
  const [agreement] = await rowsOf(
    fresh.db,
    `select votes from report.agreement where task_id = 'task-1' and team_id = 'm'`,
  );
  expect(agreement).toEqual({ votes: 2 });
});
