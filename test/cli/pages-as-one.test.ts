import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { writePagesAsOne } from '../../cli/pages-as-one.ts';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { type EpisodePage, readEpisodePage } from '../../store/explore/episodes/read-page.ts';
import { projectAll } from '../../store/projecting/projector.ts';
import { anEpisode } from '../store/support/events.ts';
import { joinPages } from '../store/support/join-pages.ts';
import { freshDatabase } from '../support/database.ts';

it('writes an episode of many pages as one JSON document, in the members and the order of one page', async () => {
  const { db, close } = await freshDatabase();
  const folder = mkdtempSync(join(tmpdir(), 'troupe-pages-'));
  try {
    await postgresLog(db).append(anEpisode('a'));
    await projectAll(db);
    const pages: EpisodePage[] = [];
    for (let after: string | undefined; after !== undefined || pages.length === 0; ) {
      pages.push((await readEpisodePage(db, 'a', { after, bytes: 1 }))!);
      after = pages.at(-1)!.next ?? undefined;
    }
    expect(pages.length).toBeGreaterThan(2);
    const written: string[] = [];
    await writePagesAsOne(
      (async function* () {
        yield* pages;
      })(),
      folder,
      (text) => {
        // Killed now, it leaves nothing.
        expect(readdirSync(folder)).toEqual([]);
        written.push(Buffer.from(text as Uint8Array).toString());
      },
    );
    const whole = JSON.parse(JSON.stringify({ ...joinPages(pages), next: null }));
    expect(written.join('')).toBe(`${JSON.stringify(whole)}\n`);
  } finally {
    rmSync(folder, { recursive: true });
    await close();
  }
});
