import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { type Bucket, startBucket } from './support/bucket.ts';
import { chats, lines } from './support/chats.ts';
import { document, type Shell, warmShell } from './support/troupe.ts';

describe('troupe prune', () => {
  let database: TestDatabase;
  let at: Shell;
  let file: string;
  let bucket: Bucket;
  const json = async (...args: string[]) => document(await at.run([...args, '--json']));
  beforeAll(async () => {
    database = await freshDatabase();
    bucket = await startBucket('cold');
    at = warmShell({ DATABASE_URL: database.url, TROUPE_PATIENCE: '1', ...bucket.env });
    file = join(at.folder, 'chats.jsonl');
    writeFileSync(file, lines(chats(32)));
    await at.run(['import', file, '--quiet']);
  });
  afterAll(async () => {
    await at.remove();
    await Promise.all([database.close(), bucket.stop()]);
  });

  it('P7, P42, P49: moves episodes into a bucket, erases there, and brings the others back; half an archive there is none', async () => {
    const before = await json('checksum');
    const prune = ['prune', '--older-than', '30d', '--to', 's3://cold/troupe/', '--yes'];
    expect(await at.run([...prune.slice(0, -2), 's3://cold/../x', '--yes'])).toMatchObject({ code: 2 });
    bucket.broken = true;
    expect(await at.run(prune)).toMatchObject({ code: 5, err: expect.stringContaining('s3://cold/troupe/') });
    expect(await json('checksum')).toEqual(before);
    bucket.broken = false;
    bucket.held.set('troupe/far/below/manifest.json', { content: Buffer.from('{}'), sha256: undefined, etag: '' });
    bucket.held.set('troupe/other/events-00000.parquet', { content: Buffer.from('half'), sha256: undefined, etag: '' });
    const { archives: made, events } = await json(...prune);
    expect(made).toMatchObject([{ uri: expect.stringMatching(/^s3:\/\/cold\/troupe\/\d{4}-\d\d-\d\d-[0-9a-f]{12}$/) }]);
    expect(manifests()).toEqual([`${made[0].uri}/manifest.json`]);
    expect(await json('reconcile')).toMatchObject({ ok: true, orphans: {} });
    bucket.broken = true;
    expect(await at.run(['rebuild', '--archived'])).toMatchObject({
      ...{ code: 5, err: expect.stringContaining(made[0].uri) },
    });
    bucket.broken = false;
    expect((await at.run(['rebuild'])).out).toContain(`Not in the tables: ${events} pruned events`);
    expect((await at.run(['rebuild', '--archived'])).out).toContain(`${events} of them from archives`);
    expect((await json('checksum')).tables).toEqual({ ...before.tables, events: expect.anything() });
    expect((await at.run([...prune, '--dry-run'])).out).toContain('in archives already: 16');
    expect(await json(...prune)).toMatchObject({ episodes: 16, archived: 16, archives: [] });

    bucket.broken = true;
    const unreached = await at.run(['erase', '--episode', 'sum-2', '--yes']);
    expect(unreached).toMatchObject({ code: 1, err: expect.stringContaining(`archive ${made[0].uri}: NOT erased`) });
    bucket.broken = false;
    const erased = await json('erase', '--episode', 'sum-2', '--yes');
    const [{ uri }] = erased.archives;
    expect([erased.archives[0].rewritten, manifests()]).toEqual([true, [`${uri}/manifest.json`]]);

    const file = [...bucket.held.keys()].find((key) => key.startsWith(uri.slice(10)) && key.endsWith('.parquet'))!;
    const whole = bucket.held.get(file)!;
    bucket.held.set(file, { ...whole, content: whole.content.subarray(0, -1) });
    expect(await at.run(['prune', 'restore', uri])).toMatchObject({ code: 1, err: expect.stringContaining(file) });
    bucket.held.set(file, whole);
    expect(await at.run(['prune', 'restore', 's3://cold/nothing'])).toMatchObject({ code: 1 });
    const back = await json('prune', 'restore', 's3://cold/troupe');
    expect(back).toMatchObject({ archives: [{ uri, left_out: 0 }] });
    expect(events - back.events).toBeGreaterThan(0);
    expect(await json('reconcile')).toMatchObject({ ok: true });
  }, 300_000);

  const manifests = (): string[] =>
    [...bucket.held.keys()]
      .filter((key) => /^troupe\/[^/]+\/manifest.json$/.test(key))
      .map((key) => `s3://cold/${key}`);
});
