/** Holds docs/analysis.md to the views: every query on the page runs, every view has its section, and no query mixes weights or splits. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Event, EventData, EventName } from '../../../ingest/events/events.ts';
import { postgresLog } from '../../../ingest/log/postgres.ts';
import { judge } from '../../../store/evaluate/judging/judge.ts';
import { ask } from '../../../store/explore/sql/sql.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';
import { anExecution, event } from '../support/events.ts';
import { attempt, feedback, marked, record, VIEWS } from './attempts.ts';

const page = readFileSync(join(import.meta.dirname, '../../../docs/analysis.md'), 'utf8');
const queries = [...page.matchAll(/```sql.*\n([\s\S]*?)```/g)].map(([, sql]) => sql as string);
const named = queries.map((sql, i) => [`${i + 1}: ${sql.split('\n')[0]}`, sql] as const);

type Part = { readonly name: string; readonly checkpoint: string; readonly split: string };
const PARTS: readonly Part[] = [
  { name: 'early', checkpoint: 'ck-1', split: 'train' },
  { name: 'late', checkpoint: 'ck-2', split: 'train' },
  { name: 'held-out', checkpoint: 'ck-1', split: 'test' },
];

const changed = ({ name, id, time, data }: Event, more: object): Event =>
  event(name, { ...data, ...more } as EventData<EventName>, { id, time });

/** What one team did with one checkpoint on the tasks of one split, of which every view has a row. */
function story({ name, checkpoint, split }: Part): Event[] {
  const [a, b, d] = ['a', 'b', 'd'].map((id) => `${name}-${id}`) as [string, string, string];
  const says = [{ by: 'x', role: 'coder' }, { by: 'y' }];
  const tool = (episode: string, error: boolean) => [
    event('tool.called', {
      episode_id: episode,
      tool_call_id: 't',
      call_id: 'c0',
      name: 'search',
      arguments: { q: 1 },
    }),
    event('tool.returned', { episode_id: episode, tool_call_id: 't', status: error ? 'error' : 'ok', output: '' }),
  ];
  const events = [
    ...attempt(a, { reward: 1, answer: '42', says, budgets: { tool_calls: 3 }, group: name, task: `task-${split}` }),
    ...attempt(b, { reward: 0, says: [{ by: 'x' }], group: name, task: `task-${split}` }),
    ...tool(a, false),
    ...anExecution(d, { task: `task-x-${split}` }),
    marked(a, 'c0/0', false),
    marked(a, 'c1/0', true),
    feedback(a, { kind: 'step', id: 'c0/0' }, { kind: 'reward', name: 'tidy', value: 0.5 }),
    feedback(b, { kind: 'step', id: 'c0/0' }, { kind: 'reward', name: 'tidy', value: 0.5 }),
    feedback(b, { kind: 'agent', id: 'x', entry: 0 }, { kind: 'failure', name: 'mistake', by: 'human' }),
  ];
  return [
    event('task.defined', { task_id: `task-${split}`, split }),
    ...events.map((one) => {
      if (one.name === 'generation.completed') return changed(one, { policy: 'team', checkpoint_id: checkpoint });
      if (one.name === 'task.defined') return changed(one, { split });
      return one.id === `${d}-start` ? changed(one, { group_id: d }) : one;
    }),
  ];
}

const METHODS = [{ method: 'grpo_advantage' }, { method: 'drmas_advantage' }, { method: 'rloo_advantage' }];

async function judged(parts: readonly Part[]): Promise<TestDatabase> {
  const fresh = await freshDatabase();
  await record(fresh.db, ...parts.map(story));
  const episodes = parts.flatMap(({ name }) => ['a', 'b', 'd'].map((id) => `${name}-${id}`));
  await judge(fresh.db, postgresLog(fresh.db), { methods: METHODS, episodes, now: () => new Date(0) });
  return fresh;
}

let all: TestDatabase;
let alone: readonly TestDatabase[];
beforeAll(async () => {
  all = await judged(PARTS);
  alone = await Promise.all(PARTS.map((part) => judged([part])));
}, 120_000);
afterAll(() => Promise.all([all, ...alone].map((one) => one.close())));

it('asks every view, in thirty questions or more', () => {
  expect(VIEWS.filter((view) => !queries.some((sql) => sql.includes(`report.${view}`)))).toEqual([]);
  expect(queries.length).toBeGreaterThanOrEqual(30);
});

it.each(named)('query %s', async (_, sql) => {
  const answer = await ask(all.db, sql);
  expect(answer.columns.length).toBeGreaterThan(1);
  expect(answer.rows.length).toBeGreaterThan(0);
});

describe('what is known of one checkpoint or split stays the same beside others', () => {
  /** Averages over checkpoints differences that were each measured with the same weights, and says so. */
  const AVERAGED = 'count(*) as checkpoints';

  it.each(named.filter(([, sql]) => !sql.includes(AVERAGED)))('query %s', async (_, sql) => {
    const whole = sql.replace(/ limit \d+\s*$/, '');
    // Sums of the same numbers in another order differ in their last digits.
    const rounded = (_: string, value: unknown) => (typeof value === 'number' ? Number(value.toPrecision(9)) : value);
    const rowsIn = async ({ db }: TestDatabase) =>
      (await ask(db, whole)).rows.map((row) => JSON.stringify(row, rounded));
    const apart = (await Promise.all(alone.map(rowsIn))).flat();
    expect((await rowsIn(all)).sort()).toEqual(apart.sort());
  });
});
