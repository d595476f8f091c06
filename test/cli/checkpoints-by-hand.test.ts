import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { sha256 } from '../../ingest/events/json.ts';
import { saveCheckpointAt } from '../../trainer/model/checkpoints/checkpoint.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { tinyContents } from '../trainer/tiny-checkpoint.ts';
import { lines } from './support/chats.ts';
import { document, type Shell, warmShell } from './support/troupe.ts';

describe('checkpoints trained by hand', () => {
  let database: TestDatabase;
  let at: Shell;
  const path = (name: string) => join(at.folder, name);
  const run = async (code: number, ...args: string[]) => {
    const ended = await at.run([...args, '--json']);
    expect([args[0], ended.code, ended.err]).toEqual([args[0], code, expect.any(String)]);
    return document(ended);
  };
  const sft = (...more: string[]) =>
    run(0, 'train', 'sft', '--model', path('model'), '--data', path('rows.jsonl'), '--steps', '2', ...more);
  beforeAll(async () => {
    database = await freshDatabase();
    at = warmShell({ DATABASE_URL: database.url });
    // Without a tokenizer: rows of token ids need none.
    await saveCheckpointAt(path('model'), { ...tinyContents(0), optimizer: null, sideFiles: {} });
    writeFileSync(path('rows.jsonl'), lines([{ input_ids: [2, 3, 4, 5] }, { input_ids: [3, 4, 5] }]));
  });
  afterAll(async () => {
    await at.remove();
    await database.close();
  });

  it('of train --policy are known to checkpoints, lineage and release', async () => {
    const trained = await sft('--out', path('a'), '--policy', 'coder');
    const { items } = await run(0, 'checkpoints');
    const row = items.find((one: { checkpoint_id: string }) => one.checkpoint_id === trained.checkpoint_id);
    expect(row).toMatchObject({ policy: 'coder', uri: trained.directory, kept: true });
    const { lineage } = await run(0, 'lineage', trained.checkpoint_id);
    expect(lineage).toMatchObject([{ relation: 'child of', other_checkpoint_id: row.parent_id }]);
    await run(0, 'release', `coder=${trained.checkpoint_id}`);
  });

  it('that used what was erased are marked in checkpoints, checkpoints folder and lineage alike', async () => {
    const trained = await sft('--out', path('marked'), '--policy', 'coder', '--seed', '3');
    const used = JSON.stringify([{ kind: 'checkpoint', id: trained.checkpoint_id, removed: false }]);
    await database.db.query(
      `insert into troupe.erasures (erasure_id, kind, events, episodes, erased_at, used) values ('er-1', 'episode', 1, 1, now(), $1)`,
      [used],
    );
    const marks = async (...args: string[]) => {
      const { items, checkpoints = items } = await run(0, ...args);
      return checkpoints
        .filter((one: { erasures: unknown }) => one.erasures !== null)
        .map((one: { checkpoint_id: string; erasures: unknown }) => [one.checkpoint_id, one.erasures]);
    };
    expect(await marks('checkpoints')).toEqual([[trained.checkpoint_id, ['er-1']]]);
    expect(await marks('checkpoints', 'folder', path('marked'))).toEqual([[trained.checkpoint_id, ['er-1']]]);
    expect((await run(0, 'lineage', trained.checkpoint_id)).found[0].erasures).toEqual(['er-1']);
    expect((await at.run(['checkpoints'])).out).toContain('er-1');
  });

  it('of train value --policy are known as any other', async () => {
    writeFileSync(path('earned.jsonl'), lines([{ input_ids: [2, 3, 4, 5], reward: 1 }]));
    const value = ['train', 'value', '--model', path('model'), '--data', path('earned.jsonl'), '--steps', '2'];
    const trained = await run(0, ...value, '--out', path('critic'), '--policy', 'critic');
    const { items } = await run(0, 'checkpoints');
    const row = items.find((one: { checkpoint_id: string }) => one.checkpoint_id === trained.checkpoint_id);
    expect(row).toMatchObject({ policy: 'critic', uri: trained.directory, kept: true });
    const { lineage } = await run(0, 'lineage', trained.checkpoint_id);
    expect(lineage).toMatchObject([{ relation: 'child of', other_checkpoint_id: row.parent_id }]);
  });

  it('are recorded by checkpoints add with what they were trained on, and a damaged one is refused', async () => {
    const trained = await sft('--out', path('b'), '--seed', '7', '--lr', '0.01');
    const unknown = await run(1, 'release', `coder=${trained.checkpoint_id}`);
    expect(unknown.error.hint).toContain('troupe checkpoints add FOLDER --policy coder');
    // As a project knows a frozen dataset with these rows.
    const manifest = { content_sha256: sha256(readFileSync(path('rows.jsonl'), 'utf8')) };
    await database.db.query(`insert into facts.datasets (dataset_id, manifest, version) values ('frozen', $1, '')`, [
      JSON.stringify(manifest),
    ]);
    const added = await run(0, 'checkpoints', 'add', trained.directory, '--policy', 'coder');
    expect(added).toMatchObject({ checkpoint_id: trained.checkpoint_id, policy: 'coder', dataset_ids: ['frozen'] });
    // A folder of checkpoints stands for its latest one, as it does for train and sample.
    const { directory } = await run(0, 'checkpoints', 'add', path('b'), '--policy', 'coder');
    expect(directory).toBe(trained.directory);
    await run(0, 'release', `coder=${trained.checkpoint_id}`);
    writeFileSync(join(trained.directory, 'config.json'), '{}');
    const damaged = await run(1, 'checkpoints', 'add', trained.directory, '--policy', 'coder');
    expect(damaged.error.code).toBe('checkpoint_damaged');
  });

  it('without a tokenizer say log-probabilities of token ids, and refuse text by naming tokenizer.json', async () => {
    const { logprobs } = await run(0, 'logprobs', '--model', path('model'), '--data', path('rows.jsonl'));
    expect(logprobs.map((row: number[]) => row.length)).toEqual([3, 2]);
    writeFileSync(path('text.jsonl'), lines([{ prompt: 'a', completion: 'b' }]));
    const text = ['train', 'sft', '--model', path('model'), '--data', path('text.jsonl'), '--out', path('c')];
    expect((await run(1, ...text)).error.message).toContain('no tokenizer.json');
  });
});
