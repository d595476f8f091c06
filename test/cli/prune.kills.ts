import { existsSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { fileArtifacts } from '../../ingest/log/artifacts.ts';
import { judgeAgain } from '../../store/evaluate/judging/judge.ts';
import { inFolders } from '../../store/keep/places.ts';
import { restore } from '../../store/keep/restore.ts';
import { reconcile } from '../../store/log/reconcile.ts';
import { checksum } from '../../store/projecting/rebuilding/checksum.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { chats, lines } from './support/chats.ts';
import { type Shell, shell } from './support/troupe.ts';

/** Milliseconds after the draft of the archive is begun: while it is written, and while rows are removed. */
const MOMENTS = [0, 120];

describe('a prune that is killed', () => {
  let database: TestDatabase;
  let at: Shell;
  beforeAll(async () => {
    database = await freshDatabase();
    at = shell({ DATABASE_URL: database.url });
    writeFileSync(join(at.folder, 'chats.jsonl'), lines(chats(200)));
    await at.run(['import', 'chats.jsonl', '--quiet']);
  });
  afterAll(async () => {
    at.remove();
    await database.close();
  });
  const count = async (): Promise<number> =>
    (await database.db.query<{ n: number }>(`select count(*)::integer as n from troupe.events where key like 'e/%'`))
      .rows[0]!.n;

  it('P42: at any moment has removed a batch whole or not at all; a second run goes on, and a restore brings all back', async () => {
    const { db } = database;
    const [before, all] = [await checksum(db), await count()];
    const archives = join(at.folder, 'home', 'archives');
    const putBodies = fileArtifacts(join(at.folder, 'home', 'artifacts')).put;
    const prune = ['prune', '--older-than', '30d', '--yes', '--quiet'];
    for (const moment of MOMENTS) {
      const running = at.start(prune);
      const begun = () => existsSync(archives) && readdirSync(archives).length > 0;
      while (!begun() && running.child.exitCode === null) await sleep(2);
      await sleep(moment);
      running.child.kill('SIGKILL');
      await running.ended;
      expect([0, all]).toContain(await count());
      expect((await reconcile(db)).ok).toBe(true);
      expect(await at.run(prune)).toMatchObject({ code: 0 });
      expect(await count()).toBe(0);
      const names = readdirSync(archives);
      expect(names.filter((name) => !/^\d{4}-\d\d-\d\d-[0-9a-f]{12}$/.test(name))).toEqual([]);
      expect((await restore(db, archives, { places: inFolders, judge: judgeAgain, putBodies })).events).toBe(all);
      expect(await checksum(db)).toEqual(before);
      for (const name of names) rmSync(join(archives, name), { recursive: true });
    }
  });
});
