/** How each way of training reads its rows, of a file or a frozen dataset, and fits them to a model, by hand and in a job alike. */
import { TroupeError } from '../../../errors.ts';
import type { OpenModel } from '../../model/model-directory.ts';
import type { PreferenceRow } from '../preference.ts';
import { type BranchRow, branchRow } from './branch-rows.ts';
import { cutPair, preferenceLine, preferenceRows } from './preference-rows.ts';
import type { DataReader } from './training-data.ts';
import { readRows, supervisedLine } from './training-files.ts';
import {
  cutRow,
  policyRow,
  type RewardedStep,
  type StepRow,
  supervisedRow,
  type TokenRow,
  type TrainingRow,
} from './training-rows.ts';
import { type RewardRange, type ValueRow, type ValueTarget, valuedStep, valueLine, valueRow } from './value-rows.ts';

/** Tokens of a row. */
export const tokensOf = ({ promptIds, tokenIds }: Pick<TokenRow, 'promptIds' | 'tokenIds'>): number =>
  promptIds.length + tokenIds.length;

/** Tokens of a pair, whose prompt goes through the model once. */
export const tokensOfPair = ({ promptIds, chosen, rejected }: PreferenceRow): number =>
  promptIds.length + chosen.tokenIds.length + rejected.tokenIds.length;

const problemOf = (row: { readonly problem?: string }, i: number): string => row.problem ?? String(i);

/** Rows of supervised learning, with the problem and the role of those that have one. */
export const supervisedRows = (
  start: OpenModel,
  longest: number,
): DataReader<TokenRow & { readonly problem?: string; readonly role?: string }> => ({
  ofLine: (value) => supervisedLine(value, start),
  ofDataset: (dataset, split) => {
    const { unit } = dataset.manifest.recipe;
    if (unit !== 'branch') requireUnit(unit);
    return readRows<unknown, TokenRow>(dataset.rows(split), (row) =>
      unit === 'branch' ? branchRow(row as BranchRow, start) : supervisedRow(row as StepRow, start),
    );
  },
  fit: (row) => fitted(row, longest),
  problem: problemOf,
});

/** Pairs of answers. */
export const pairs = (start: OpenModel, longest: number): DataReader<PreferenceRow> => ({
  ofLine: (value) => preferenceLine(value, start),
  ofDataset: (dataset, split) => ({ rows: preferenceRows(dataset, start, split), refused: [] }),
  fit: (row) => {
    const length = row.promptIds.length + Math.max(row.chosen.tokenIds.length, row.rejected.tokenIds.length);
    return length <= longest ? row : cutPair(row, longest);
  },
  problem: (row) => row.promptIds.join(),
});

/**
 * Rows of a value head. With `of` each row of a dataset is one position, whose target is its credit where the recipe names a method, else
 * its reward; without it every token that is learnt has the reward of its row.
 */
export const valuedRows = (
  start: OpenModel,
  longest: number,
  { of, range }: { readonly of?: ValueTarget | undefined; readonly range: RewardRange },
): DataReader<ValueRow> => ({
  ofLine: (value) => valueLine(value, start, range),
  ofDataset: (dataset, split) => {
    const { unit, credit } = dataset.manifest.recipe;
    requireUnit(unit);
    const by = credit === null ? 'reward' : 'advantage';
    return readRows(dataset.rows(split) as Iterable<unknown>, (row) =>
      of === undefined
        ? valueRow(row as RewardedStep, start, range)
        : valuedStep(row as RewardedStep, start, { of, by, range }),
    );
  },
  fit: (row) => fitted(row, longest),
  problem: problemOf,
});

/** Rows of a policy gradient. */
export const policyRows = (longest: number): DataReader<TrainingRow> => ({
  ofLine: () => {
    throw new TroupeError('usage', 'A policy gradient takes a frozen dataset, which names who judged its advantages.');
  },
  ofDataset: (dataset, split) => {
    requireUnit(dataset.manifest.recipe.unit);
    return { rows: ([...dataset.rows(split)] as unknown as StepRow[]).map(policyRow), refused: [] };
  },
  // A part of an answer has not earned its advantage.
  fit: (row) => (tokensOf(row) <= longest ? row : null),
  problem: (row) => row.problem,
});

/** A row with what it knows beside its tokens, cut to a length; null where nothing learnt is left. */
function fitted<R extends TokenRow>(row: R, longest: number): R | null {
  const short = cutRow(row, longest);
  return short === null ? null : short === row ? row : { ...row, ...short };
}

function requireUnit(unit: string): void {
  if (unit === 'step' || unit === 'group') return;
  const hint =
    unit === 'pair'
      ? 'Pairs are what troupe train dpo and troupe train reward learn from.'
      : unit === 'branch'
        ? 'Branches are what troupe train sft learns from.'
        : null;
  throw new TroupeError('usage', `The dataset's unit is ${unit}; this training takes datasets of unit step or group.`, {
    expected: 'unit step or group',
    got: unit,
    ...(hint ? { hint } : {}),
  });
}
