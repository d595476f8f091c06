import { existsSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { chats, lines } from './support/chats.ts';
import { document, type Shell, warmShell } from './support/troupe.ts';

describe('troupe prune', () => {
  let database: TestDatabase;
  let at: Shell;
  let file: string;
  let archives: string;
  const json = async (...args: string[]) => document(await at.run([...args, '--json']));
  beforeAll(async () => {
    database = await freshDatabase();
    at = warmShell({ DATABASE_URL: database.url, TROUPE_PATIENCE: '1' });
    archives = join(at.folder, 'home', 'archives');
    file = join(at.folder, 'chats.jsonl');
    writeFileSync(file, lines(chats(32)));
    await at.run(['import', file, '--quiet']);
  });
  afterAll(async () => {
    await at.remove();
    await database.close();
  });

  it('wants to know what, asks before it does it, and says with --dry-run how much it would be', async () => {
    for (const args of [
      ['--older-than', 'long'],
      ['--limit', '9'],
      ['--older-than', '9d', '--restore', 'x'],
      ['--older-than', '9d'],
    ])
      expect([args, (await at.run(['prune', ...args])).code]).toEqual([args, 2]);
    const some = ['--limit', '9', '--where', '{"field":"task_id","op":"!=","value":"task-0"}'];
    expect(await json('prune', '--older-than', '30d', '--dry-run', ...some)).toEqual({
      ...{
        before: expect.any(String),
        dry_run: true,
        groups: 2,
        episodes: 8,
        archived: 0,
        events: expect.any(Number),
        bytes: expect.any(Number),
      },
      ...{ archives: [], artifacts: 0, changed: 0, warnings: [] },
    });
    expect(existsSync(archives)).toBe(false);
  });

  it('P7: moves episodes into the home, refuses the same file, shows where they are stored, and brings them back', async () => {
    const before = await json('checksum');
    const pruned = await at.run(['prune', '--older-than', '30d', '--yes']);
    expect(pruned).toMatchObject({
      code: 0,
      out: expect.stringMatching(/^Pruned: 16 episodes of 4 groups, \d+ events/),
    });
    const uri = join(archives, readdirSync(archives)[0]!);
    const again = await at.run(['import', file, '--json']);
    expect(again.code).toBe(3);
    expect(document(again).errors[0]).toMatchObject({ code: 'pruned', expected: expect.stringContaining(uri) });
    expect(await json('lineage', 'sum-0')).toMatchObject({ pruned: [{ uri, episodes: 1, first_episode_id: 'sum-0' }] });
    expect(await json('reconcile')).toMatchObject({ ok: true, orphans: {} });
    expect(await json('prune', 'restore', archives)).toMatchObject({
      episodes: 16,
      archives: [{ uri, left_out: 0 }],
    });
    expect(await json('checksum')).toEqual(before);
    expect((await json('deadletters', 'replay', '--code', 'pruned')).refused).toEqual([]);
    rmSync(archives, { recursive: true });
  });

  it('P49: lets erase reach into the archive, which ends with 1 where the folder is not there', async () => {
    await at.run(['prune', '--older-than', '30d', '--yes', '--quiet']);
    renameSync(archives, `${archives}-away`);
    const ended = await at.run(['erase', '--episode', 'sum-3', '--yes']);
    expect(ended).toMatchObject({ code: 1, err: expect.stringContaining(`archive ${archives}`) });
    expect(ended.err).toContain('NOT erased');
    renameSync(`${archives}-away`, archives);
    expect(await json('erase', '--episode', 'sum-3', '--yes')).toMatchObject({ archives: [{ rewritten: true }] });
    await at.run(['prune', 'restore', archives]);
    rmSync(archives, { recursive: true });
  });
});

it('erase says of the files of a dataset whether they are there, whoever removed them', async () => {
  const database = await freshDatabase();
  const at = warmShell({ DATABASE_URL: database.url });
  const json = async (...args: string[]) => document(await at.run([...args, '--json']));
  const frozen = async (name: string): Promise<string> => {
    const path = join(at.folder, `${name}.json`);
    writeFileSync(path, JSON.stringify({ name, unit: 'step' }));
    return (await json('dataset', 'freeze', path)).dataset_id;
  };
  try {
    writeFileSync(join(at.folder, 'chats.jsonl'), lines(chats(8)));
    await at.run(['import', join(at.folder, 'chats.jsonl'), '--quiet']);
    const [gone, left] = [await frozen('gone'), await frozen('left')];
    rmSync(join(at.folder, 'home', 'datasets', gone), { recursive: true });
    const unconfirmed = await at.run(['erase', '--episode', 'sum-1', '--keep-datasets']);
    expect([unconfirmed.code, unconfirmed.err]).toEqual([
      ...[
        2,
        expect.stringMatching(/^troupe: Nothing was done\. This erases [1-9]\d* events? of 1 episode,.*Pass --yes/),
      ],
    ]);
    const { datasets } = await json('erase', '--episode', 'sum-1', '--keep-datasets', '--yes');
    expect(datasets).toHaveLength(2);
    expect(datasets).toContainEqual({ dataset_id: gone, removed: true });
    expect(datasets).toContainEqual({ dataset_id: left, removed: false });
  } finally {
    await at.remove();
    await database.close();
  }
});
