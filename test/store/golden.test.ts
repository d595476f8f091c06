/** Logs recorded with earlier releases, and what their tables were then: this release reads them to the same. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { decodeText } from '../../ingest/decode.ts';
import { typeOf, VOCABULARY } from '../../ingest/events.ts';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { projectAll } from '../../store/projecting/projector.ts';
import { checksum } from '../../store/rebuilding/checksum.ts';
import { freshDatabase } from '../support/database.ts';

const FOLDER = join(import.meta.dirname, 'golden');
const releases = readdirSync(FOLDER).flatMap((name) => /^(.+)\.jsonl$/.exec(name)?.[1] ?? []);
const linesOf = (release: string): string[] =>
  readFileSync(join(FOLDER, `${release}.jsonl`), 'utf8')
    .trim()
    .split('\n');

/** Columns that came after these releases, by table. */
const LATER = { calls: ['task_id', 'group_id'], episodes: ['started_task_id', 'started_group_id'] };

describe('A log recorded with an earlier release', () => {
  it('is there, with every event that this release knows', () => {
    const types = new Set(releases.flatMap(linesOf).map((line) => JSON.parse(line).type));
    expect([...types].sort()).toEqual(
      Object.keys(VOCABULARY)
        .map((name) => typeOf(name as never))
        .sort(),
    );
  });

  it.each(releases)('P18: %s replays to the tables that were kept for it', async (release) => {
    const kept = JSON.parse(readFileSync(join(FOLDER, `${release}.checksum.json`), 'utf8')) as {
      tables: Record<string, { rows: number; sha256: string }>;
    };
    const events = linesOf(release).map((line) => {
      const { event, refusal } = decodeText(line);
      if (refusal) throw new Error(`${line.slice(0, 200)} is refused now: ${JSON.stringify(refusal)}`);
      return event;
    });
    const fresh = await freshDatabase();
    try {
      await postgresLog(fresh.db).append(events);
      await projectAll(fresh.db);
      for (const [table, columns] of Object.entries(LATER)) {
        await fresh.db.query(`alter table facts.${table} ${columns.map((one) => `drop column ${one}`).join(', ')}`);
      }
      const now: typeof kept = JSON.parse(JSON.stringify(await checksum(fresh.db)));
      // A table or column that came later is none of its business; judgements are made by judging again.
      for (const [name, table] of Object.entries(kept.tables)) expect([name, now.tables[name]]).toEqual([name, table]);
      expect(Object.values(kept.tables).filter(({ rows }) => rows > 0).length).toBeGreaterThan(12);
    } finally {
      await fresh.close();
    }
  });
});
