/** A frozen dataset in the file layout of another trainer: written once, with a manifest that lists what was lost. */
import { join, resolve } from 'node:path';
import { TroupeError } from '../../errors.ts';
import { sha256 } from '../../ingest/json.ts';
import { nearest } from '../methods/nearest.ts';
import { nestedStream } from './arrow.ts';
import { type CardFile, cardText, SPLIT_NAMES } from './card.ts';
import { LAYOUTS } from './layouts/catalogue.ts';
import { type Counted, counter } from './layouts/counter.ts';
import { countNotHeld } from './layouts/held.ts';
import type { Layout, LayoutFile } from './layouts/layout.ts';
import { NEEDED, turnsOf } from './layouts/turn.ts';
import { parquetOf } from './parquet.ts';
import { draftAt, draftPath, type FileFacts, writeError } from './publish.ts';
import type { OpenedDataset } from './read.ts';

/** The content of `manifest.json` in an exported folder. */
export type LayoutManifest = {
  readonly format: 'troupe-layout/1';
  readonly layout: string;
  readonly dataset_id: string;
  readonly name: string;
  readonly content_sha256: string;
  /** Rows of each file that has rows. */
  readonly rows: Readonly<Record<string, number>>;
  /** Rows of the dataset that are not in the files, by the reason. */
  readonly left_out: readonly Counted[];
  /** What rows of the dataset hold and the files do not, with the number of rows. */
  readonly not_held: readonly Counted[];
  readonly files: readonly FileFacts[];
};

export type Exported = { readonly manifest: LayoutManifest; readonly directory: string };

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
export async function exportDataset(dataset: OpenedDataset, layout: Layout, out: string): Promise<Exported> {
  const directory = resolve(out);
  const { files, leftOut, notHeld } = filesIn(dataset, layout);
  const { dataset_id, name, content_sha256 } = dataset.manifest;
  const filled = files.filter((file) => file.kind === 'text' || file.rows.length > 0);
  const rows = Object.fromEntries(
    filled.flatMap((file) => (file.kind === 'text' ? [] : [[file.name, file.rows.length]])),
  );
  const bodies = new Map<string, Uint8Array>(filled.map((file) => [file.name, bytesOf(file)]));
  const cards = filled.flatMap((file): CardFile[] =>
    file.kind === 'text' ? [] : [{ split: file.split, name: file.name, rows: file.rows.length }],
  );
  const card = cardText(dataset.manifest, cards, [
    `Layout \`${layout.name}\`: ${layout.about}.`,
    ...listed('## Rows that are left out', leftOut),
    ...listed('## What the files do not hold', notHeld),
  ]);
  bodies.set('README.md', Buffer.from(card));
  const manifest: LayoutManifest = {
    format: 'troupe-layout/1',
    layout: layout.name,
    ...{ dataset_id, name, content_sha256, rows },
    left_out: leftOut,
    not_held: notHeld,
    files: [...bodies]
      .map(([file, bytes]) => ({ name: file, sha256: sha256(bytes), bytes: bytes.length }))
      .sort((a, b) => (a.name < b.name ? -1 : 1)),
  };
  bodies.set('manifest.json', Buffer.from(`${JSON.stringify(manifest, null, 2)}\n`));
  await write(directory, bodies);
  return { manifest, directory };
}

function filesIn(dataset: OpenedDataset, layout: Layout) {
  const { unit, columns } = dataset.manifest.recipe;
  const [leftOut, notHeld] = [counter(), counter()];
  const refused = layout.refuses?.[unit];
  if (refused !== undefined) {
    const fitting = LAYOUTS.filter(({ refuses }) => refuses?.[unit] === undefined).map(({ name }) => name);
    throw new TroupeError('usage', `Layout ${layout.name} takes no dataset of unit ${unit}: ${refused}.`, {
      field: '--layout',
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
    split: SPLIT_NAMES[split] ?? 'train',
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

const listed = (title: string, counts: readonly Counted[]): readonly string[] =>
  counts.length === 0 ? [] : [`${title}\n\n${counts.map(({ what, count }) => `- ${count} × ${what}`).join('\n')}`];

function bytesOf(file: LayoutFile): Uint8Array {
  if (file.kind === 'text') return Buffer.from(file.text);
  if (file.kind === 'parquet') return parquetOf(nestedStream(file.shapes, file.rows));
  return Buffer.from(file.rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
}

async function write(directory: string, bodies: ReadonlyMap<string, Uint8Array>): Promise<void> {
  const parent = join(directory, '..');
  const draft = await draftAt(draftPath(parent));
  try {
    for (const [name, bytes] of bodies) {
      const sink = await draft.file(name);
      await sink.write(bytes);
      await sink.finish();
    }
    if (await draft.publish(directory)) return;
  } catch (error) {
    await draft.discard();
    throw writeError(error, 'The export', parent);
  }
  throw new TroupeError('conflict', `There is something in ${directory} already. Name another folder, or empty it.`, {
    field: '--out',
    expected: 'a folder that is not there, or empty',
    got: directory,
  });
}
