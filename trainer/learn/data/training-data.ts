/**
 * Where a run's rows come from: a file of JSON lines or a frozen dataset, cut to the model's length, with what was refused, what was left
 * out, and a part held out where one is asked for.
 */
import { readFile, stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { countText, TroupeError, unreadable } from '../../../errors.ts';
import { sha256 } from '../../../ingest/events/json.ts';
import { findDataset, type OpenedDataset, openDataset } from '../../../store/datasets/read.ts';
import { randomStream } from '../../tensor/random.ts';
import { shuffle } from './shuffle.ts';
import { type LineRefusal, type ReadLines, readLines } from './training-files.ts';

export type DataReader<R> = {
  /** A row of a file. @throws TroupeError `input_refused`. */
  readonly ofLine: (value: unknown) => R;
  /** The rows of a split of a dataset. */
  readonly ofDataset: (dataset: OpenedDataset, split: string) => ReadLines<R>;
  /** A row within the model's length; null where nothing to learn is left. */
  readonly fit: (row: R) => R | null;
  /** What must not be on both sides of a split. */
  readonly problem: (row: R, index: number) => string;
};

export type TrainingData<R> = {
  readonly rows: readonly R[];
  /** SHA-256 of what was read. */
  readonly sha256: string;
  /** Null for a file. */
  readonly dataset: OpenedDataset | null;
  readonly refused: readonly LineRefusal[];
  readonly cut: number;
  readonly skipped: number;
};

/** `name` is a file, a dataset's folder, or its id or name among `datasets`. @throws TroupeError `not_found`, `input_refused` where no row is left. */
export async function loadTrainingData<R>(
  name: string,
  { datasets, split = 'train' }: { readonly datasets: string; readonly split?: string },
  reader: DataReader<R>,
): Promise<TrainingData<R>> {
  const isFile = (await stat(name).catch(() => null))?.isFile() ?? /\.jsonl?$/.test(name);
  return isFile ? ofFile(name, reader) : ofDataset(name, datasets, split, reader);
}

async function ofFile<R>(name: string, reader: DataReader<R>): Promise<TrainingData<R>> {
  const text = await readFile(name, 'utf8').catch((cause) => {
    throw unreadable(name, cause);
  });
  const { rows, refused } = readLines(text, reader.ofLine);
  const fitted = withinLength(rows, reader);
  if (fitted.rows.length === 0) {
    const [first] = refused;
    const why = first
      ? `${name}:${first.line}: ${first.field || 'the row'} should be ${first.expected}, it is ${first.got}`
      : rows.length === 0
        ? 'It is empty'
        : `longer than the model can read: ${countText(fitted.skipped, 'row')}`;
    throw new TroupeError('input_refused', `${name} has no row to learn from. ${why}.`, {
      expected: first?.expected ?? 'rows within the length of the model',
      got: first?.got ?? `${fitted.skipped} too long`,
      ...(first ? { field: first.field } : {}),
    });
  }
  return { ...fitted, refused, sha256: sha256(text), dataset: null };
}

async function ofDataset<R>(
  name: string,
  datasets: string,
  split: string,
  reader: DataReader<R>,
): Promise<TrainingData<R>> {
  const dataset = await openDataset(name.includes('/') ? resolve(name) : await findDataset(datasets, name));
  return requireRows(name, split, readSplit(dataset, split, reader));
}

/** What a reader makes of a split of a dataset, which may be no row at all. */
export function readSplit<R>(dataset: OpenedDataset, split: string, reader: DataReader<R>): TrainingData<R> {
  const { rows, refused } = reader.ofDataset(dataset, split);
  return { ...withinLength(rows, reader), refused, sha256: dataset.manifest.content_sha256, dataset };
}

/** @throws TroupeError `training_failed` where there is no row to learn from, and why */
export function requireRows<R>(name: string, split: string, data: TrainingData<R>): TrainingData<R> {
  const { rows, refused, skipped } = data;
  if (rows.length > 0) return data;
  const [first] = refused;
  const why = first
    ? `${refused.length} were refused, the first because ${first.field || 'the row'} should be ${first.expected}, it is ${first.got}`
    : skipped > 0
      ? `none of its ${countText(skipped, 'row')} has anything to learn within the context of the model`
      : 'it is empty';
  throw new TroupeError('training_failed', `Split ${split} of ${name} has no row to learn from: ${why}.`, {
    hint:
      skipped > 0
        ? 'Begin with a model of a longer context, or freeze shorter steps.'
        : 'Look at what the filters of its recipe left: troupe dataset show.',
  });
}

function withinLength<R>(rows: readonly R[], reader: DataReader<R>): Pick<TrainingData<R>, 'rows' | 'cut' | 'skipped'> {
  const fitted = rows.map(reader.fit);
  const kept = fitted.filter((row) => row !== null);
  return {
    rows: kept,
    cut: fitted.filter((row, i) => row !== null && row !== rows[i]).length,
    skipped: rows.length - kept.length,
  };
}

/**
 * Rows to train on and rows held out: a share of the problems, drawn from the seed, so that no problem is on both sides.
 * @throws TroupeError `usage` where one side would be empty.
 */
export function holdOut<R>(
  rows: readonly R[],
  share: number,
  { problem, seed }: { readonly problem: DataReader<R>['problem']; readonly seed: number },
): { readonly rows: readonly R[]; readonly heldOut: readonly R[] } {
  const names = rows.map(problem);
  const problems = shuffle([...new Set(names)], randomStream(seed));
  const out = new Set(problems.slice(0, Math.round(share * problems.length)));
  const split = {
    rows: rows.filter((_, i) => !out.has(names[i]!)),
    heldOut: rows.filter((_, i) => out.has(names[i]!)),
  };
  if (split.rows.length > 0 && split.heldOut.length > 0) return split;
  throw new TroupeError(
    'usage',
    `${problems.length} problems cannot be parted so that a share of ${share} is held out and something is left.`,
  );
}
