import { existsSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { chats, lines } from './support/chats.ts';
import { document, type Shell, shell } from './support/troupe.ts';

/** Moments from the start of the archive's draft on, in milliseconds; the last ones find the command at its end or gone. */
const MOMENTS = [0, 40, 120, 300];

describe('a prune that is killed', () => {
  let database: TestDatabase;
  let at: Shell;
  beforeAll(async () => {
    database = await freshDatabase();
    at = shell({ DATABASE_URL: database.url });
    writeFileSync(join(at.folder, 'chats.jsonl'), lines(chats(1200)));
    await at.run(['import', 'chats.jsonl', '--quiet']);
  });
  afterAll(async () => {
    at.remove();
    await database.close();
  });
  const json = async (...args: string[]) => document(await at.run([...args, '--json']));
  const count = async (): Promise<number> =>
    (await database.db.query<{ n: number }>(`select count(*)::integer as n from troupe.events where key like 'e/%'`))
      .rows[0]!.n;

  it('P42: at any moment has removed a batch whole or not at all; a second run goes on, and a restore brings all back', async () => {
    const [before, all] = [await json('checksum'), await count()];
    const archives = join(at.folder, 'home', 'archives');
    const prune = ['prune', '--older-than', '30d', '--yes', '--quiet'];
    for (const moment of MOMENTS) {
      const running = at.start(prune);
      while (!existsSync(archives) || readdirSync(archives).length === 0) await sleep(2);
      await sleep(moment);
      running.child.kill('SIGKILL');
      await running.ended;
      const left = await count();
      expect([0, all]).toContain(left);
      expect((await json('reconcile')).ok).toBe(true);
      expect((await at.run(prune)).code).toBe(0);
      expect(await count()).toBe(0);
      const names = readdirSync(archives);
      expect(names.filter((name) => !/^\d{4}-\d\d-\d\d-[0-9a-f]{12}$/.test(name))).toEqual([]);
      expect((await json('prune', '--restore', archives)).events).toBe(all);
      expect(await json('checksum')).toEqual(before);
      for (const name of names) rmSync(join(archives, name), { recursive: true });
    }
  });
});
