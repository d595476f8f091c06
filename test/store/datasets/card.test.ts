/** What the data card of a frozen dataset says of origin, licence, redaction and erasure: what was recorded or given, else that it is unknown. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { parse } from 'yaml';
import { freeze } from '../../../store/datasets/freeze.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';
import { seed } from './fixture.ts';

let database: TestDatabase;
let folder: string;
let places = 0;
beforeAll(async () => {
  database = await freshDatabase();
  folder = mkdtempSync(join(tmpdir(), 'card-'));
  // Three tasks of two episodes, each of three calls of which the first has two answers.
  await seed(database.db);
});
afterAll(async () => {
  await database.close();
  rmSync(folder, { recursive: true });
});

async function cardOf(recipe: object) {
  const options = { directory: join(folder, `${places++}`), codeVersion: 'test' };
  const { directory, manifest } = await freeze(database.db, { name: 'carded', ...recipe }, options);
  const text = readFileSync(join(directory, 'README.md'), 'utf8');
  return { text, manifest, head: parse(text.split('---\n')[1]!) as Record<string, unknown> };
}

it('is unknown where neither a source nor the recipe says it, and nothing is invented', async () => {
  const { text, head, manifest } = await cardOf({});
  expect(head).not.toHaveProperty('license');
  expect(text).toContain('- Origin: unknown\n- Licence: unknown\n');
  expect(text).toContain('6 episodes: origin unknown, licence unknown');
  expect(text).toContain('- Redacted before recording: no mark is in the rows\n');
  expect(text).toContain('- Erased on request: nothing in this project');
  expect(manifest.recipe).not.toHaveProperty('license');
});

it('names what the recipe says, what tasks and episodes say, the marks in the rows by rule, and erasures', async () => {
  const { db } = database;
  await db.query(`update facts.tasks set origin = 'gsm8k', tags = '{"license":"mit"}' where task_id = 'task-0'`);
  await db.query(`update facts.episodes set tags = '{"licence":"cc-by-4.0"}' where task_id = 'task-1'`);
  await db.query(
    `update facts.steps set text = 'a [redacted:email] and [redacted:email], [redacted:aws_key] [redacted:' where episode_id = 'ep-0-0' and call_id = 'call-0' and candidate = 0`,
  );
  await db.query(
    `insert into troupe.erasures (erasure_id, kind, reason, events, episodes, erased_at) values ('one', 'episode', 'asked', 7, 2, now());
     insert into troupe.erased (key, erasure_id) values ('e/ep-0-0', 'one'), ('e/gone', 'one')`,
  );
  const { text, head, manifest } = await cardOf({ origin: 'our chat logs', license: 'apache-2.0' });
  expect(head.license).toBe('apache-2.0');
  expect(text).toContain(
    '- Origin: `our chat logs` (as the recipe says)\n- Licence: `apache-2.0` (as the recipe says)\n',
  );
  expect(manifest.provenance).toEqual({
    origins: [
      { origin: 'gsm8k', license: 'mit', episodes: 2 },
      { origin: null, license: 'cc-by-4.0', episodes: 2 },
      { origin: null, license: null, episodes: 2 },
    ],
    redacted: { aws_key: 1, email: 2 },
    erased: { erasures: 1, episodes: 2, events: 7, chosen: 1 },
  });
  expect(text).toContain('2 episodes: origin `gsm8k`, licence `mit`');
  expect(text).toContain('marks in the rows, 1 by `aws_key`, 2 by `email`');
  expect(text).toContain(
    '1 erasures in this project, which took the text of 7 events of 2 episodes, 1 of them episodes that rows were chosen from',
  );
});

it('of a filtered dataset names the episodes that rows were chosen from alone', async () => {
  const { manifest } = await cardOf({ where: 'task_id = task-0', columns: ['episode_id'] });
  expect(manifest.provenance?.origins).toEqual([{ origin: 'gsm8k', license: 'mit', episodes: 2 }]);
  expect(manifest.provenance?.redacted).toEqual({});
  const others = await cardOf({ where: 'task_id = task-1', columns: ['episode_id'] });
  expect([manifest, others.manifest].map((one) => one.provenance?.erased.chosen)).toEqual([1, 0]);
});
