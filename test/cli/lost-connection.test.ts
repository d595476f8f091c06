import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { encodeEnvelope } from '../../ingest/decode.ts';
import { anEpisode } from '../store/support/events.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { type Shell, shell } from './support/troupe.ts';

let fresh: TestDatabase;
let at: Shell;
beforeEach(async () => {
  fresh = await freshDatabase();
  at = shell({ DATABASE_URL: fresh.url });
});
afterEach(async () => {
  at.remove();
  await fresh.close();
});

it('import brings everything in, although PostgreSQL ends its connections again and again', async () => {
  const file = join(at.folder, 'events.jsonl');
  const events = Array.from({ length: 150 }, (_, i) => anEpisode(`e${i}`)).flat();
  writeFileSync(file, events.map((event) => JSON.stringify(encodeEnvelope(event))).join('\n'));
  const running = at.start(['import', file, '--json']);
  let ended = false;
  const done = running.ended.finally(() => {
    ended = true;
  });
  let cut = 0;
  while (!ended && cut < 4) {
    await sleep(50);
    // Not while it connects: a server that refuses the first connection is reported, not waited for.
    const { rows } = await fresh.db.query<{ n: number }>(
      `select count(pg_terminate_backend(pid))::integer as n from pg_stat_activity
       where datname = current_database() and pid <> pg_backend_pid() and query ~* 'troupe[.](events|log_partitions|positions)|commit'`,
    );
    cut += rows[0]!.n;
  }
  expect(cut).toBeGreaterThan(0);
  expect(await done).toMatchObject({ code: 0 });
  const { rows } = await fresh.db.query('select count(*)::integer as n, bool_and(closed) as closed from traj.episodes');
  expect(rows).toEqual([{ n: 150, closed: true }]);
}, 240_000);
