/**
 * Rows of frozen datasets among those of a new one, so that a model does not forget what it learnt before (experience replay: Rolnick
 * et al., Experience Replay for Continual Learning, 2019, whose share of old rows is a parameter, too). A frozen dataset says which
 * rows; they are read again as they are now, with the columns, reward and credit of the new recipe.
 */
import { type Static, Type } from 'typebox';
import { TroupeError } from '../../errors.ts';
import type { Unit } from './columns.ts';

const ReplayInput = Type.Object(
  {
    dataset: Type.String({ minLength: 1, description: 'id or name of a frozen dataset; what is frozen pins its id' }),
    share: Type.Number({ exclusiveMinimum: 0, exclusiveMaximum: 1, description: 'share of the rows in train' }),
    seed: Type.Optional(
      Type.Union([Type.Integer(), Type.String()], { description: 'another seed chooses others; 0 if left out' }),
    ),
  },
  { additionalProperties: false },
);

/** The field of a recipe as people write it. */
export const replayField = Type.Optional(
  Type.Union([Type.Array(ReplayInput), Type.Null()], {
    description: 'rows of frozen datasets beside those that the recipe finds, chosen by a hash of seed and ids',
  }),
);

export type Replay = { readonly dataset: string; readonly share: number; readonly seed: string };

/** The canonical field. @throws TroupeError `recipe_invalid` for shares that leave nothing, for pairs, and beside a limit. */
export function replayOf(
  unit: Unit,
  { replay, limit }: { replay?: Static<typeof replayField>; limit?: number | null },
): { readonly replay?: readonly Replay[] } {
  if (!replay || replay.length === 0) return {};
  const refuse = (message: string, expected: string, got: string): never => {
    throw new TroupeError('recipe_invalid', message, { field: 'replay', expected, got });
  };
  if (unit === 'branch')
    refuse('replay takes rows of one step or episode, and a branch has several steps.', 'another unit', 'branch');
  if (unit === 'pair') refuse('replay takes rows of one step or episode, and a pair has two.', 'another unit', 'pair');
  if (limit) refuse('limit would cut replayed rows off; take caps, which count before.', 'caps', `limit: ${limit}`);
  const sum = sumOf(replay);
  if (sum >= 1) refuse(`replay takes a share of ${sum} of the rows, which leaves none.`, 'below 1', String(sum));
  return { replay: replay.map(({ dataset, share, seed = 0 }) => ({ dataset, share, seed: String(seed) })) };
}

/** The share of replayed rows among all rows of train. */
export const sumOf = (replay: readonly { readonly share: number }[]): number =>
  replay.reduce((sum, { share }) => sum + share, 0);
