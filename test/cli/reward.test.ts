/** `troupe reward` where nothing else runs. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { lines } from './support/chats.ts';
import { document, type Shell, warmShell } from './support/troupe.ts';

const SLOW = 120_000;
let fresh: TestDatabase;
let at: Shell;
beforeAll(async () => {
  fresh = await freshDatabase();
  at = warmShell({ DATABASE_URL: fresh.url });
  const query = 'select count(*)::float8 as reward from episodes where episode_id = :episode';
  writeFileSync(join(at.folder, 'troupe.yaml'), `rewards:\n  counted:\n    sql: ${query}\n`);
  const event = (name: string, data: object) => ({
    specversion: '1.0',
    type: `troupe.${name}.v1`,
    source: '/made-up',
    id: `first/${name}`,
    time: '2026-01-01T00:00:00Z',
    data,
  });
  const events = [
    event('episode.started', { episode_id: 'first' }),
    event('episode.finished', { episode_id: 'first', outcome: 'unknown' }),
  ];
  writeFileSync(join(at.folder, 'events.jsonl'), lines(events));
}, SLOW);
afterAll(async () => {
  await at.remove();
  await fresh.close();
});

it(
  'troupe reward records the rewards and ends by itself, without other processes',
  async () => {
    expect((await at.run(['import', join(at.folder, 'events.jsonl')])).code).toBe(0);
    const ended = await at.run(['reward', 'counted', '--json']);
    expect([ended.code, document(ended)]).toMatchObject([0, { episodes: 1, rewarded: 1, failed: {} }]);
    const { rows } = await fresh.db.query('select reward from traj.episodes');
    expect(rows).toEqual([{ reward: 1 }]);
    const again = await at.run(['reward', 'counted', '--json']);
    expect(document(again)).toMatchObject({ episodes: 0, rewarded: 0 });
  },
  SLOW,
);
