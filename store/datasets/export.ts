/** A frozen dataset in the file layout of another trainer: written once, with a manifest that lists what was lost. */
import { join, resolve } from 'node:path';
import { TroupeError } from '../../errors.ts';
import { writtenJson } from '../../ingest/events/spelling.ts';
import { nearest } from '../../nearest.ts';
import { nestedStreams } from './arrow.ts';
import { type CardFile, cardText } from './card.ts';
import type { SplitName } from './columns.ts';
import { LAYOUTS } from './layouts/catalogue.ts';
import { type Count, counter } from './layouts/counter.ts';
import { countNotHeld } from './layouts/held.ts';
import type { Layout, LayoutFile } from './layouts/layout.ts';
import { NEEDED, turnsOf } from './layouts/turn.ts';
import { parquetOf } from './parquet.ts';
import { draftAt, draftPath, type FileFacts, writeError } from './publish.ts';
import type { OpenedDataset } from './read.ts';

/** The content of `manifest.json` in an exported folder. */
type LayoutManifest = {
  readonly format: 'troupe-layout/1';
  readonly layout: string;
  readonly dataset_id: string;
  readonly name: string;
  readonly content_sha256: string;
  /** Rows of each file that has rows. */
  readonly rows: Readonly<Record<string, number>>;
  /** Rows of the dataset that are not in the files, by the reason. */
  readonly left_out: readonly Count[];
  /** What rows of the dataset hold and the files do not, with the number of rows. */
  readonly not_held: readonly Count[];
  readonly files: readonly FileFacts[];
};

/** @throws TroupeError `usage` for a name that is no layout. */
export function layoutNamed(name: string): Layout {
  const found = LAYOUTS.find((layout) => layout.name === name);
  if (found) return found;
  const names = LAYOUTS.map((layout) => layout.name);
  const meant = nearest(name, names);
  throw new TroupeError(
    'usage',
    `There is no layout ${JSON.stringify(name)}.${meant ? ` Did you mean ${meant}?` : ''} There are: ${names.join(', ')}.`,
    { expected: names.join(', '), got: name },
  );
}

/**
 * Writes `dataset` in `layout` into the folder `out`, which must not be there or be empty. The same dataset gives the same bytes.
 * @throws TroupeError `usage` where no row of the dataset fits the layout or columns are missing; `conflict` where `out` is taken;
 * `home_unwritable` where the folder or disk refuses.
 */
export async function exportDataset(dataset: OpenedDataset, layout: Layout, out: string) {
  const directory = resolve(out);
  const { files, leftOut, notHeld } = filesIn(dataset, layout);
  const { dataset_id, name, content_sha256 } = dataset.manifest;
  const filled = files.filter((file) => file.kind === 'text' || file.rows.length > 0);
  const rows = Object.fromEntries(
    filled.flatMap((file) => (file.kind === 'text' ? [] : [[file.name, file.rows.length]])),
  );
  const cards = filled.flatMap((file): CardFile[] =>
    file.kind === 'text' ? [] : [{ split: file.split, name: file.name, rows: file.rows.length }],
  );
  const card = cardText(dataset.manifest, cards, [
    `Layout \`${layout.name}\`: ${layout.about}.`,
    ...listed('## Rows that are left out', leftOut),
    ...listed('## What the files do not hold', notHeld),
  ]);
  const facts = { dataset_id, name, content_sha256, rows, left_out: leftOut, not_held: notHeld };
  const manifest = await written(directory, async (put) => {
    const done: FileFacts[] = [];
    for (const file of filled) done.push(await put(file.name, partsOf(file)));
    done.push(await put('README.md', [Buffer.from(card)]));
    const listed = done.sort((a, b) => (a.name < b.name ? -1 : 1));
    const complete: LayoutManifest = { format: 'troupe-layout/1', layout: layout.name, ...facts, files: listed };
    await put('manifest.json', [Buffer.from(`${JSON.stringify(complete, null, 2)}\n`)]);
    return complete;
  });
  return { manifest, directory };
}

function filesIn(dataset: OpenedDataset, layout: Layout) {
  const { unit, columns } = dataset.manifest.recipe;
  const [leftOut, notHeld] = [counter(), counter()];
  const refused = layout.refuses?.[unit];
  if (refused !== undefined) {
    const fitting = LAYOUTS.filter(({ refuses }) => refuses?.[unit] === undefined).map(({ name }) => name);
    throw new TroupeError('usage', `Layout ${layout.name} takes no dataset of unit ${unit}: ${refused}.`, {
      field: 'layout',
      expected: `one of ${fitting.join(', ')}`,
      got: layout.name,
    });
  }
  const needed = NEEDED[unit];
  const missing = needed.filter((column) => !columns.includes(column));
  if (missing.length > 0) {
    throw new TroupeError(
      'usage',
      `Dataset ${dataset.manifest.dataset_id} was frozen without ${missing.join(' and ')}, which layouts are made from. Freeze its recipe with these columns.`,
      { field: 'columns', expected: needed.join(', '), got: columns.join(', ') },
    );
  }
  const splits = dataset.splits.map((split) => ({
    split: split as SplitName,
    turns: turnsOf(dataset.rows(split), unit, notHeld),
  }));
  const files = layout.files(splits, { name: dataset.manifest.name, leftOut, notHeld });
  for (const { turns } of splits) countNotHeld(turns, layout.holds, notHeld);
  if (!files.some((file) => file.kind !== 'text' && file.rows.length > 0)) {
    const total = splits.reduce((sum, { turns }) => sum + turns.length, 0);
    const why = leftOut.list().map(({ what, count }) => `${count}: ${what}`);
    throw new TroupeError(
      'usage',
      `Layout ${layout.name} has no row of dataset ${dataset.manifest.dataset_id}, which holds ${total} answers.${why.length > 0 ? ` ${why.join('; ')}.` : ''}`,
      { expected: layout.about, got: why.join('; ') || 'an empty dataset' },
    );
  }
  return { files, leftOut: leftOut.list(), notHeld: notHeld.list() };
}

const listed = (title: string, counts: readonly Count[]): readonly string[] =>
  counts.length === 0 ? [] : [`${title}\n\n${counts.map(({ what, count }) => `- ${count} × ${what}`).join('\n')}`];

type ByteParts = AsyncIterable<Uint8Array> | Iterable<Uint8Array>;

function partsOf(file: LayoutFile): ByteParts {
  if (file.kind === 'text') return [Buffer.from(file.text)];
  if (file.kind === 'parquet') return parquetOf(nestedStreams(file.shapes, file.rows));
  return linesOf(file.rows);
}

const LINES = 1000;

function* linesOf(rows: readonly unknown[]): Generator<Uint8Array, void, undefined> {
  for (let from = 0; from < rows.length; from += LINES) {
    const lines = rows.slice(from, from + LINES).map((row) => `${writtenJson(row)}\n`);
    yield Buffer.from(lines.join(''));
  }
}

/** Writes a folder by `work`, which puts one file after the other; the folder is there with all of them or not at all. */
async function written<T>(
  directory: string,
  work: (put: (name: string, parts: ByteParts) => Promise<FileFacts>) => Promise<T>,
): Promise<T> {
  const parent = join(directory, '..');
  const draft = await draftAt(draftPath(parent));
  try {
    const done = await work(async (name, parts) => {
      const sink = await draft.file(name);
      for await (const part of parts) await sink.write(part);
      return sink.finish();
    });
    if (await draft.publish(directory)) return done;
  } catch (error) {
    await draft.discard();
    throw writeError(error, 'The export', parent);
  }
  throw new TroupeError('conflict', `There is something in ${directory} already. Name another folder, or empty it.`, {
    field: 'out',
    expected: 'a folder that is not there, or empty',
    got: directory,
  });
}
