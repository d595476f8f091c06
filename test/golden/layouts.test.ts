/** Every layout of one frozen dataset, file by file, compared whole with the text kept beside this file. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { decodeText } from '../../ingest/events/decode.ts';
import type { Event } from '../../ingest/events/events.ts';
import { writtenJson } from '../../ingest/events/spelling.ts';
import { calculatorTeam } from '../../proofs/calculator-team.ts';
import { freeze } from '../../store/datasets/freeze.ts';
import { LAYOUTS } from '../../store/datasets/layouts/catalogue.ts';
import { counter } from '../../store/datasets/layouts/counter.ts';
import { countNotHeld } from '../../store/datasets/layouts/held.ts';
import type { LayoutFile } from '../../store/datasets/layouts/layout.ts';
import { turnsOf } from '../../store/datasets/layouts/turn.ts';
import { type OpenedDataset, openDataset } from '../../store/datasets/read.ts';
import { type JudgedDatabase, judgedDatabase } from '../store/judging/support/judged.ts';

let base: JudgedDatabase;
let folder: string;
let dataset: OpenedDataset;

/** A solver with tools and thoughts and a checker with token ids, each task solved once and failed once. */
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'layouts-'));
  base = await judgedDatabase();
  const lines = calculatorTeam(3).trimEnd().split('\n');
  await base.load(
    lines.map((line) => {
      const decoded = decodeText(line);
      if (!decoded.event) throw new Error(line);
      return decoded.event as Event;
    }),
  );
  const recipe = { name: 'sums', split: { held_out: 0.4, seed: 2 } };
  dataset = await openDataset((await freeze(base.db, recipe, { directory: folder, codeVersion: 'test' })).directory);
});
afterAll(async () => {
  await base.close();
  await rm(folder, { recursive: true, force: true });
});

const lines = (rows: readonly unknown[]): string => rows.map((row) => `${writtenJson(row)}\n`).join('');

/** A file as text; of Parquet the types of its columns, then its rows with those columns alone. */
function textOf(file: LayoutFile): string {
  if (file.kind === 'text') return file.text;
  if (file.kind === 'lines') return lines(file.rows);
  const names = Object.keys(file.shapes);
  return lines([file.shapes, ...file.rows.map((row) => Object.fromEntries(names.map((name) => [name, row[name]])))]);
}

it.each(LAYOUTS.map((layout) => [layout.name, layout] as const))(
  '%s writes the files that were kept',
  async (name, layout) => {
    const [leftOut, notHeld] = [counter(), counter()];
    const splits = (['train', 'held_out'] as const).map((split) => ({
      split,
      turns: turnsOf(dataset.rows(split), 'step', notHeld),
    }));
    const files = layout.files(splits, { name: 'sums', leftOut, notHeld });
    for (const { turns } of splits) countNotHeld(turns, layout.holds, notHeld);
    const counted = `left out: ${JSON.stringify(leftOut.list())}\nnot held: ${JSON.stringify(notHeld.list())}\n`;
    const text = [counted, ...files.map((file) => `=== ${file.name}\n${textOf(file)}`)].join('\n');
    await expect(text).toMatchFileSnapshot(`layouts/${name}.txt`);
  },
);
