import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parquetReadObjects } from 'hyparquet';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import type { TroupeError } from '../../../errors.ts';
import { sha256 } from '../../../ingest/events/json.ts';
import { nestedStreams } from '../../../store/datasets/arrow.ts';
import { exportDataset, layoutNamed } from '../../../store/datasets/export.ts';
import { freeze } from '../../../store/datasets/freeze.ts';
import { counter } from '../../../store/datasets/layouts/counter.ts';
import { turnsOf } from '../../../store/datasets/layouts/turn.ts';
import { parquetOf } from '../../../store/datasets/parquet.ts';
import { openDataset } from '../../../store/datasets/read.ts';
import { bytesIn } from '../../support/bytes.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';
import { seed } from './fixture.ts';

let folder: string;
let database: TestDatabase;
let places = 0;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'layouts-'));
  database = await freshDatabase();
  await seed(database.db);
});
afterAll(async () => {
  await database.close();
  await rm(folder, { recursive: true, force: true });
});

const place = () => join(folder, `out-${places++}`);
const frozen = async (recipe: object) => {
  const options = { directory: join(folder, 'home'), codeVersion: 'test' };
  return openDataset((await freeze(database.db, { name: 'team', ...recipe }, options)).directory);
};
const refusal = (work: Promise<unknown>): Promise<TroupeError> =>
  work.then(
    () => expect.fail('taken'),
    (error) => error,
  );

describe('exporting a dataset', () => {
  it('writes the rows of each split, a manifest with their hashes, and a card whose configs name the files', async () => {
    const dataset = await frozen({ split: { held_out: 0.4, seed: 3 }, reward: 'cure' });
    const { manifest, directory } = await exportDataset(dataset, layoutNamed('trl-sft'), place());
    expect(manifest).toMatchObject({ layout: 'trl-sft', dataset_id: dataset.manifest.dataset_id, left_out: [] });
    const { train, held_out } = dataset.manifest.rows;
    expect(held_out).toBeGreaterThan(0);
    expect(manifest.rows).toEqual({ 'train.parquet': train, 'held_out.parquet': held_out });
    expect((await readdir(directory)).sort()).toEqual([
      'README.md',
      'held_out.parquet',
      'manifest.json',
      'train.parquet',
    ]);
    for (const { name, sha256: hash, bytes } of manifest.files) {
      const body = await readFile(join(directory, name));
      expect([name, sha256(body), body.length]).toEqual([name, hash, bytes]);
    }
    const card = await readFile(join(directory, 'README.md'), 'utf8');
    expect(parse(card.split('---\n')[1]!)).toEqual({
      pretty_name: 'team',
      configs: [
        {
          config_name: 'default',
          data_files: [
            { split: 'train', path: 'train.parquet' },
            { split: 'held_out', path: 'held_out.parquet' },
          ],
        },
      ],
    });
    expect(card).toContain(`| train | ${train} | \`train.parquet\` |`);
  });

  it('parts tasks into train, validation and test, each task on one side, and the card of the dataset itself names all three', async () => {
    const dataset = await frozen({ split: { validation: 0.34, test: 0.33, seed: 1 }, columns: ['task_id', 'text'] });
    expect(dataset.splits).toEqual(['train', 'validation', 'test']);
    const tasks = dataset.splits.map((split) => new Set(dataset.frame(split).column('task_id')));
    const all = tasks.flatMap((some) => [...some]);
    expect(all.sort()).toEqual(['task-0', 'task-1', 'task-2']);
    const card = parse((await readFile(join(dataset.directory, 'README.md'), 'utf8')).split('---\n')[1]!);
    const filled = dataset.splits.filter((split) => dataset.frame(split).rows > 0);
    expect(card.configs[0].data_files).toEqual(filled.map((split) => ({ split, path: `${split}.arrow` })));
  });

  it('writes Parquet whose messages are lists of JSON, as another reader reads them', async () => {
    const dataset = await frozen({ where: { field: 'episode_id', op: '=', value: 'ep-1-0' } });
    const [lost, about] = [counter(), { name: 'team', leftOut: counter(), notHeld: counter() }];
    const turns = turnsOf(dataset.rows(), 'step', lost);
    const [laid] = layoutNamed('everything').files([{ split: 'train', turns }], about);
    if (laid?.kind !== 'parquet') throw new Error('expected Parquet');
    // The reader knows no zstd.
    const { buffer, byteOffset, length } = await bytesIn(
      parquetOf(nestedStreams(laid.shapes, laid.rows), { codec: 'snappy' }),
    );
    const file = buffer.slice(byteOffset, byteOffset + length) as ArrayBuffer;
    const rows = await parquetReadObjects({ file });
    expect(rows).toHaveLength(6);
    expect(rows[3]).toMatchObject({
      prompt: ['{"role":"system","content":"You \\"solve\\"\\nwell"}', '{"role":"user","content":"Q1","name":"asker"}'],
      completion: ['{"role":"assistant","content":"answer 1.0.1.1"}'],
      prompt_token_ids: [1, 2, 4],
      completion_token_ids: [1, 0, 1, 1],
      loss_mask: [1, 1, 0, 1],
      reward: 1,
    });
  });

  it('gives the same turns from whole episodes as from steps', async () => {
    const where = { field: 'outcome', op: '=', value: 'success' };
    const [steps, episodes] = [await frozen({ where }), await frozen({ where, unit: 'episode' })];
    const read = async (dataset: typeof steps) => {
      const { directory } = await exportDataset(dataset, layoutNamed('openai-sft'), place());
      return readFile(join(directory, 'train.jsonl'), 'utf8');
    };
    const text = await read(steps);
    expect(text.split('\n').length).toBeGreaterThan(2);
    expect(await read(episodes)).toBe(text);
  });

  it('gives the same bytes again', async () => {
    const dataset = await frozen({});
    const [a, b] = [
      await exportDataset(dataset, layoutNamed('trl-sft'), place()),
      await exportDataset(dataset, layoutNamed('trl-sft'), place()),
    ];
    expect(a.manifest).toEqual(b.manifest);
  });

  it('refuses a layout that no row fits, with the reasons, and writes nothing', async () => {
    const dataset = await frozen({ where: { field: 'reward', op: 'is null' } });
    const out = place();
    const error = await refusal(exportDataset(dataset, layoutNamed('trl-unpaired'), out));
    expect(error).toMatchObject({ code: 'usage' });
    expect(error.message).toMatch(/trl-unpaired has no row .* holds 18 answers\. 18: no reward/);
    await expect(readdir(out)).rejects.toThrow();
  });

  it('refuses a dataset without the columns that messages are made from', async () => {
    const dataset = await frozen({ columns: ['episode_id', 'text', 'content'] });
    const error = await refusal(exportDataset(dataset, layoutNamed('trl-sft'), place()));
    expect(error.message).toContain('was frozen without prompt');
  });

  it('refuses a folder in which there is something, and leaves it as it was', async () => {
    const out = await mkdtemp(join(folder, 'taken-'));
    await writeFile(join(out, 'mine'), 'x');
    const error = await refusal(exportDataset(await frozen({}), layoutNamed('trl-sft'), out));
    expect(error.code).toBe('conflict');
    expect(await readdir(out)).toEqual(['mine']);
  });

  it('names the nearest layout for one that is misspelt', () => {
    expect(() => layoutNamed('trl_sft')).toThrow(/Did you mean trl-sft\?/);
  });
});
