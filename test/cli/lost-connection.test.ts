import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { encodeEnvelope } from '../../ingest/events/decode.ts';
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
  const done = await fresh.db.transaction(async (holder) => {
    // Reading goes on, writing waits: what stands in the line is the import's append.
    await holder.query('lock table troupe.stored_events in share mode');
    const { ended } = at.start(['import', file, '--json']);
    for (let cut = 0; cut < 4; ) {
      await sleep(20);
      const { rows } = await fresh.db.query<{ n: number }>(
        `select count(pg_terminate_backend(l.pid))::integer as n from pg_locks l
         where not l.granted and l.relation = 'troupe.stored_events'::regclass`,
      );
      cut += rows[0]!.n;
    }
    return { ended };
  });
  expect(await done.ended).toMatchObject({ code: 0 });
  const { rows } = await fresh.db.query('select count(*)::integer as n, bool_and(closed) as closed from traj.episodes');
  expect(rows).toEqual([{ n: 150, closed: true }]);
}, 240_000);
