/** Rows for a value head: what was generated, and the reward that it earned. */
import type { OpenModel } from '../../model/model-directory.ts';
import { type RowModel, record, refuse, supervisedLine } from './training-files.ts';
import { type RewardedStep, supervisedRow, type TokenRow, type TrainingRow } from './training-rows.ts';

export type ValueRow = TokenRow & {
  readonly reward: number;
  /** The task, where it is known. */
  readonly problem?: string;
};

/** Rewards that a loss takes: any, or shares from 0 to 1. */
export type RewardRange = 'any' | 'share';

/** A line of supervised learning with `"reward"` beside it. @throws TroupeError `input_refused` naming the field. */
export const valueLine = (value: unknown, model: RowModel, range: RewardRange): ValueRow => ({
  ...unweighed(supervisedLine(value, model)),
  reward: rewardOf(record(value).reward, range),
});

/** A step of a dataset with the column `reward`. @throws TroupeError `input_refused` naming the field. */
export function valueRow(step: RewardedStep, model: OpenModel, range: RewardRange): ValueRow {
  const reward = rewardOf(step.reward, range);
  return { ...unweighed(supervisedRow(step, model)), reward };
}

/** Whose value it is: that of the state before an answer (a critic), or of the answer (a process reward model). */
export const VALUED = ['state', 'answer'] as const;
export type ValueTarget = (typeof VALUED)[number];

/**
 * The one position of a step whose value is trained or read: at the end of its prompt, or of its answer. The token that follows is
 * never read; it stands there because a value is that of what comes before a token.
 */
export const valuedTokens = (
  { promptIds, tokenIds }: Pick<TokenRow, 'promptIds' | 'tokenIds'>,
  of: ValueTarget,
): Pick<TokenRow, 'promptIds' | 'tokenIds'> => ({
  promptIds: of === 'state' ? promptIds : [...promptIds, ...tokenIds],
  tokenIds: [promptIds[0]!],
});

/** A step with its target: its credit, where the recipe names a method, else its reward. Null where that is unknown. */
export function valuedStep(
  step: RewardedStep,
  model: OpenModel,
  { of, by, range }: { readonly of: ValueTarget; readonly by: 'advantage' | 'reward'; readonly range: RewardRange },
): (ValueRow & Pick<TrainingRow, 'role'>) | null {
  if (step[by] === null || step[by] === undefined) return null;
  const { role, ...row } = unweighed(supervisedRow(step, model));
  return { ...valuedTokens(row, of), trained: [true], role, reward: rewardOf(step[by], range) };
}

/** The loss of a value head has no weights of rows. */
const unweighed = <R extends TokenRow>(row: R): R =>
  row.weight === undefined ? row : refuse('weight', 'left out, since a value head takes no weights', row.weight);

function rewardOf(value: unknown, range: RewardRange): number {
  const fits = typeof value === 'number' && Number.isFinite(value) && (range === 'any' || (value >= 0 && value <= 1));
  return fits ? value : refuse('reward', range === 'any' ? 'a number' : 'a number from 0 to 1', value);
}
