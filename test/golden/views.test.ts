/** Every view of the schemas traj and report over one home of several sources, row by row, compared whole with the text kept beside this file. */
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { importFiles } from '../../ingest/files/import.ts';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { judge } from '../../store/evaluate/judging/judge.ts';
import { projectAll } from '../../store/projecting/projector.ts';
import { memoryLog } from '../ingest/support/memory-log.ts';
import { anEpisode, anExecution, at } from '../store/support/events.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { RECORDED } from './recorded.ts';

const SOURCES = ['agent-lightning', 'claude-code', 'mast', 'otel-genai', 'tau-bench'];
/** A log that has every event of the vocabulary. */
const EVERY_EVENT = join(import.meta.dirname, '../store/golden/0.1.0.jsonl');
const METHODS = [
  'drmas_advantage',
  'failure_signs',
  'grpo_advantage',
  'majority_filter',
  'cure_code_reward',
  'bon_select',
];
/** When an event arrived, and what was measured on the machine that worked. */
const BY_THE_CLOCK = new Set(['recorded_at', 'received_at', 'first_recorded_at', 'last_recorded_at', 'made_at']);

let fresh: TestDatabase;
let views: readonly string[];

beforeAll(async () => {
  fresh = await freshDatabase();
  const log = postgresLog(fresh.db);
  const memory = memoryLog();
  await importFiles([...SOURCES.map((source) => join(RECORDED, source)), EVERY_EVENT], memory);
  await log.append([
    ...memory.events,
    ...anEpisode('won', { reward: 1 }),
    ...anEpisode('lost', { reward: 0 }),
    ...anExecution('tried'),
  ]);
  await projectAll(fresh.db);
  let clock = 0;
  const now = () => new Date(Date.parse(at(0)) + clock++);
  const episodes = ['won', 'lost', 'tried'];
  await judge(fresh.db, log, { methods: METHODS.map((method) => ({ method })), episodes, now });
  await projectAll(fresh.db);
  const { rows } = await fresh.db.query<{ name: string }>(
    `select table_schema || '.' || table_name as name from information_schema.views where table_schema in ('traj', 'report') order by 1`,
  );
  views = rows.map(({ name }) => name);
});
afterAll(() => fresh.close());

it('every view gives the rows that were kept', async () => {
  for (const view of views) {
    const { rows } = await fresh.db.query<Record<string, unknown>>(`select * from ${view}`);
    const texts = rows.map((row) =>
      Object.entries(row)
        .flatMap(([column, value]) =>
          value === null || BY_THE_CLOCK.has(column) ? [] : [`${column}: ${JSON.stringify(value)}`],
        )
        .join('\n'),
    );
    const text = texts.length === 0 ? 'no rows' : texts.sort().join('\n\n');
    await expect.soft(`${text}\n`).toMatchFileSnapshot(`views/${view}.txt`);
  }
});
