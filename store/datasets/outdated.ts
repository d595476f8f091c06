/** What a dataset would hold if its recipe were frozen now: late feedback, new episodes, judging again, pruning and erasure change it. */
import { mkdtemp, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Db } from '../db/pool.ts';
import type { ChosenMethod } from './chosen-methods.ts';
import { type DatasetDiff, datasetDiff } from './diff.ts';
import { freeze } from './freeze.ts';
import type { Manifest } from './manifest.ts';
import { type OpenedDataset, openDataset } from './read.ts';

/**
 * Freezes the dataset's recipe again, compares the rows, and removes what was frozen. Nothing is announced.
 * @param options.folder gets a folder for the time of the comparison
 * @throws TroupeError `not_found` where a method of the recipe has no judgements any more
 */
export async function outdated(
  db: Db,
  dataset: OpenedDataset,
  { folder, ...options }: { readonly folder: string; readonly codeVersion: string; readonly benchmarks?: string },
): Promise<{
  /** False where freezing the recipe again gives the same dataset. */
  readonly outdated: boolean;
  readonly rows: DatasetDiff;
  /** Methods of which another version or another parameter set would be read. */
  readonly methods: readonly { readonly before: string; readonly now: string }[];
}> {
  const directory = await mkdtemp(join(folder, 'outdated-'));
  try {
    const frozen = await freeze(db, dataset.manifest.recipe, {
      directory,
      datasets: dirname(dataset.directory),
      ...options,
      allowEmpty: true,
    });
    const now = await openDataset(frozen.directory);
    const before = keysOf(dataset.manifest);
    const methods = keysOf(now.manifest)
      .map((key, i) => ({ before: before[i] ?? '', now: key }))
      .filter((method) => method.before !== method.now);
    const rows = datasetDiff(dataset, now);
    return { outdated: now.manifest.dataset_id !== dataset.manifest.dataset_id, rows, methods };
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** The recipe is the same, so the methods stand in the same places. */
const keysOf = ({ methods: { verdicts, reward, credit } }: Manifest): readonly string[] =>
  [...verdicts, reward, credit].map((method: ChosenMethod | null) => method?.method_key ?? '');
