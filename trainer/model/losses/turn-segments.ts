/** Turns as the segments of a batch: what `turn-ratio.ts` needs of its rows, from the turn ids of their tokens. */
import { groupBy } from '../../../ingest/events/group-by.ts';
import { mean } from '../../../store/evaluate/methods/statistics.ts';

/** Turn id of a token that no turn holds: a prompt, an observation, padding. */
export const NO_TURN = -100;

/** How losses of turns become one: a mean over the turns of a sequence and then over sequences, or over all turns. */
export type TurnAggregation = 'trajectory' | 'turn';

/** A sequence's tokens. */
export type TurnTokens = {
  /** Turn id of each token, `NO_TURN` for those that are not trained. */
  readonly turn: readonly number[];
  /** Advantage of each token; a turn has their mean. */
  readonly advantage: readonly number[];
};

/**
 * Weights and segments of all rows of a step, each given as the sequences of its completions. A token weighs 1/length of its turn, a turn
 * its advantage over the number of turns it is averaged with. A token of no turn weighs 0.
 */
export function turnSegments(
  rows: readonly (readonly TurnTokens[])[],
  { aggregation = 'trajectory' }: { readonly aggregation?: TurnAggregation } = {},
): {
  readonly completions: readonly { readonly weights: readonly number[]; readonly segments: readonly number[] }[];
  readonly segmentWeights: readonly number[];
}[] {
  const turns = rows.map((row) => row.map(({ turn }) => turnsOf(turn)));
  const filled = turns.flat().filter((of) => of.length > 0);
  const all = filled.reduce((count, of) => count + of.length, 0);
  return rows.map((row, q) => {
    const segmentWeights: number[] = [];
    const completions = row.map(({ turn, advantage }, i) => {
      const weights: number[] = turn.map(() => 0);
      const segments: number[] = turn.map(() => 0);
      const own = turns[q]![i]!;
      for (const tokens of own) {
        for (const t of tokens) {
          weights[t] = 1 / tokens.length;
          segments[t] = segmentWeights.length;
        }
        const share = aggregation === 'turn' ? 1 / all : 1 / (own.length * filled.length);
        segmentWeights.push(mean(tokens.map((t) => advantage[t]!)) * share);
      }
      return { weights, segments };
    });
    return { completions, segmentWeights };
  });
}

/** Token numbers of each turn, turns in order of first appearance. */
export function turnsOf(turn: readonly number[]): number[][] {
  const held = [...turn.keys()].filter((t) => turn[t] !== NO_TURN);
  return [...groupBy(held, (t) => turn[t]!).values()];
}
