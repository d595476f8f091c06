import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { postgresLog } from '../../../ingest/log/postgres.ts';
import { freeze } from '../../../store/datasets/freeze.ts';
import { judgeAgain } from '../../../store/evaluate/judging/judge.ts';
import { erase } from '../../../store/keep/erase.ts';
import { projectAll } from '../../../store/projecting/projector.ts';
import { fileTarget, writeBackup } from '../../../store/server/backup/backup.ts';
import { fileSource, readManifest, restoreBackup } from '../../../store/server/backup/restore.ts';
import { archiveEnd, entryHead, padding } from '../../../store/server/backup/tar.ts';
import { homeAt } from '../../../store/server/home.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';
import { anEpisode, event } from '../support/events.ts';

describe('a backup', () => {
  let folder: string;
  let origin: TestDatabase;
  let copy: TestDatabase;
  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'troupe-backup-'));
    [origin, copy] = await Promise.all([freshDatabase(), freshDatabase()]);
  });
  afterEach(async () => {
    await Promise.all([origin.close(), copy.close()]);
    rmSync(folder, { recursive: true });
  });
  const file = () => join(folder, 'backup.tar.gz');
  const made = () =>
    writeBackup(origin.db, fileTarget(file()), {
      home: homeAt(join(folder, 'home')),
      project: 'troupe',
      version: '0',
      now: new Date(),
    });

  it('is refused in one sentence where it is damaged: manifest, seal, header, name, rows, one bit, or another format', async () => {
    await made();
    const whole = gunzipSync(readFileSync(file()));
    const manifestEnd = 512 + Math.ceil(whole.indexOf(0, 512) / 512) * 512 - 512;
    const rest = whole.subarray(manifestEnd);
    const withManifest = (text: string) =>
      Buffer.concat([entryHead('manifest.json', text.length), Buffer.from(text), padding(text.length), rest]);
    const manifest = JSON.parse(whole.toString('utf8', 512, whole.indexOf(0, 512)));
    const name = Buffer.alloc(70_000, 'n');
    const packed = gzipSync(whole);
    const flipped = Buffer.from(packed);
    flipped[Math.floor(packed.length / 2)]! ^= 4;
    const cases: Record<string, Buffer> = {
      'no JSON': gzipSync(withManifest('{"format":1')),
      'no JSON in lines': gzipSync(withManifest(JSON.stringify(manifest, null, 2).replace('"tables"', 'tables'))),
      'no object': gzipSync(withManifest('[]')),
      'no format': gzipSync(withManifest('{}')),
      'no tables': gzipSync(withManifest(JSON.stringify({ ...manifest, tables: null }))),
      'odd sequences': gzipSync(
        withManifest(JSON.stringify({ ...manifest, sequences: { nothing: { value: '1', called: true } } })),
      ),
      'a long name': gzipSync(Buffer.concat([longName(name.length), name, padding(name.length), whole])),
      'a bit': flipped,
      'half of it': packed.subarray(0, packed.length / 2),
      'another format': Buffer.from('PK\u0003\u0004 not ours'),
      'no archive': gzipSync(Buffer.from('{"a":1}'.repeat(200))),
      nothing: Buffer.alloc(0),
    };
    for (const [what, bytes] of Object.entries(cases)) {
      writeFileSync(file(), bytes);
      const there = { home: homeAt(join(folder, 'there')), project: 'troupe' };
      const error = await restoreBackup(copy.db, fileSource(file()), there).catch((e) => e);
      expect({ what, code: error.code, lines: error.message?.split('\n').length }).toEqual({
        what,
        code: 'dataset_damaged',
        lines: 1,
      });
      await expect(readManifest(fileSource(file())).catch(({ code }) => code)).resolves.toSatisfy(
        (one: unknown) => one === 'dataset_damaged' || typeof one === 'object',
      );
    }
  }, 120_000);

  it('is not restored over a project that holds nothing but events', async () => {
    await postgresLog(origin.db).append(anEpisode('kept'));
    await made();
    await postgresLog(copy.db).append(anEpisode('other'));
    const restored = restoreBackup(copy.db, fileSource(file()), {
      home: homeAt(join(folder, 'there')),
      project: 'troupe',
    });
    await expect(restored).rejects.toThrow('The project holds something already (troupe.stored_events)');
    const { rows } = await copy.db.query<{ key: string }>('select distinct key from troupe.events order by 1');
    expect(rows.map(({ key }) => key)).toContain('e/other');
  });

  it('is refused where it names what is no table or column, since names become part of statements', async () => {
    await made();
    const archive = gunzipSync(readFileSync(file()));
    const manifest = JSON.parse(archive.toString('utf8', 512, archive.indexOf(0, 512)));
    const [first] = manifest.tables;
    const injected = 'x) from program $$touch it$$; --';
    for (const table of [
      { name: 'troupe.api_keys; create table troupe.made ()', columns: [] },
      { ...first, columns: [injected] },
    ]) {
      const content = Buffer.from(JSON.stringify({ ...manifest, tables: [table] }));
      const rows = entryHead(`tables/${table.name}/1`, 0);
      const parts = [entryHead('backup.json', content.length), content, padding(content.length), rows, archiveEnd()];
      const restored = restoreBackup(
        copy.db,
        async function* () {
          yield gzipSync(Buffer.concat(parts));
        },
        { home: homeAt(join(folder, 'there')), project: 'troupe' },
      );
      await expect(restored).rejects.toThrow(/it lists ".+", which is no (table|column) of/);
    }
    const { rows } = await copy.db.query("select to_regclass('troupe.made') as made");
    expect(rows).toEqual([{ made: null }]);
  });

  it('unpacks no more than a backup holds, in however many tables and files that is split, and writes no file elsewhere', async () => {
    await made();
    const whole = gunzipSync(readFileSync(file()));
    const manifest = whole.subarray(512, whole.indexOf(0, 512));
    const part = (name: string, content: Buffer) =>
      gzipSync(Buffer.concat([entryHead(name, content.length), content, padding(content.length)]));
    const row = Buffer.from(`"${'x'.repeat(2 ** 20)}"\n`);
    const rows = part('tables/troupe.pending_changes/1', Buffer.concat(Array.from({ length: 16 }, () => row)));
    expect(rows.length).toBeLessThan(100_000);
    let taken = 0;
    const bomb = async function* () {
      yield part('backup.json', manifest);
      for (taken = 0; taken < 100; taken++) yield* [rows, part(`home/datasets/${taken}`, Buffer.alloc(2 ** 20))];
    };
    const there = { home: homeAt(join(folder, 'there')), project: 'troupe' };
    await expect(restoreBackup(copy.db, bomb, there)).rejects.toMatchObject({
      code: 'dataset_damaged',
      message: expect.stringMatching(/bytes of it unpack to more than \d{8}, as no backup does/),
    });
    expect(taken).toBeLessThan(6);
    expect(await copy.db.query('select from troupe.pending_changes limit 1')).toMatchObject({ rows: [] });

    for (const name of ['home/datasets/../../../taken', 'home/other/one']) {
      const moved = async function* () {
        yield* [part('backup.json', manifest), part(name, Buffer.from('x')), gzipSync(archiveEnd())];
      };
      await expect(restoreBackup(copy.db, moved, there)).rejects.toThrow(`it has an entry "${name}"`);
    }
    expect(existsSync(join(folder, 'taken'))).toBe(false);
  });

  it('names the checkpoints that lie elsewhere on this machine, because it does not hold them, and none in a bucket', async () => {
    const saved = (id: string, uri: string) =>
      event('checkpoint.saved', { checkpoint_id: id, policy: 'solver', uri, sha256: '0'.repeat(64), kept: true });
    await postgresLog(origin.db).append([
      saved('away', join(folder, 'mine')),
      saved('gone', join(folder, 'home', 'checkpoints', 'gone')),
      saved('bucket', 's3://bucket/team'),
    ]);
    await projectAll(origin.db);
    expect((await made()).missing).toEqual([join(folder, 'home', 'checkpoints', 'gone'), join(folder, 'mine')]);
  });

  it('does not name a dataset whose files an erasure removed as missing', async () => {
    const log = postgresLog(origin.db);
    await log.append(anEpisode('anna'));
    await projectAll(origin.db);
    const directory = join(folder, 'home', 'datasets');
    const now = new Date('2026-11-21T12:00:00Z');
    for (const name of ['one', 'two'])
      await freeze(origin.db, { name, unit: 'step' }, { directory, codeVersion: '0', log, at: now.toISOString() });
    await projectAll(origin.db);
    const erased = await erase(
      origin.db,
      { episode: 'anna' },
      {
        log,
        now: () => now,
        judge: judgeAgain,
        removeBody: async () => true,
        removeDataset: async ({ uri }) => {
          rmSync(uri!, { recursive: true });
          return true;
        },
      },
    );
    expect(erased.datasets.map(({ removed }) => removed)).toEqual([true, true]);
    expect((await made()).missing).toEqual([]);
  });
});

/** The header of a long name, as GNU tar writes it. */
function longName(length: number): Buffer {
  const head = entryHead('n'.repeat(101), 0).subarray(0, 512);
  head.write(`${length.toString(8).padStart(11, '0')}\0`, 124);
  let sum = 0;
  for (const [i, byte] of head.entries()) sum += i >= 148 && i < 156 ? 32 : byte;
  head.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148);
  return head;
}
