/**
 * The clipped policy loss by turns: one ratio and one advantage for each turn of a conversation.
 *
 * Source: ReMA (arXiv:2503.09501), its fork of verl, compute_policy_loss with `clip_mode` turn, verified (code). The ratio of a turn is
 * exp of the mean log-ratio of its tokens, that mean bounded above by 3 and not below; its advantage is the mean of theirs. Clip and dual
 * clip (c = 3) are those of `surrogate.ts`. The aggregate is a mean over turns of each sequence, then over sequences (`trajectory`, as
 * in the released scripts), or one mean over all turns (`turn`). Tokens of turn −100 are of no turn. A sequence without a turn counts in
 * no mean (ours).
 */
import { type Static, Type } from 'typebox';
import { refuseInput, requireRows } from '../../../store/evaluate/methods/refuse.ts';
import { nullable } from '../../../store/evaluate/methods/shapes.ts';
import { mean } from '../../../store/evaluate/methods/statistics.ts';
import { exp, less, maximum, minimum, multiply, scalar, subtract, sum } from '../../tensor/operations.ts';
import type { Loss } from './loss.ts';
import type { LossMethod } from './method.ts';
import { type Bounds, type ClipRange, surrogate, surrogateGraph } from './surrogate.ts';
import { type TurnAggregation, type TurnTokens, turnsOf } from './turn-segments.ts';

export type TurnRatioOptions = ClipRange & {
  readonly dualClip?: number | null;
  /** Most mean log-ratio of a turn. */
  readonly logRatioMax?: number;
};

const LOG_RATIO_MAX = 3;

function boundsOf({ clipLow = 0.2, clipHigh = 0.2, dualClip = 3 }: TurnRatioOptions): Bounds {
  return { clipLow, clipHigh, dualClip };
}

/**
 * Σ over turns of the surrogate, segments being turns as `turnSegments` makes them: a token's `weight` is 1/length of its turn, a
 * segment's is its advantage times its part in the mean. Reports `clip_share` and `ratio`, those of a token's turn.
 */
export function turnRatioLoss(options: TurnRatioOptions = {}): Loss {
  const bounds = boundsOf(options);
  const { logRatioMax = LOG_RATIO_MAX } = options;
  return {
    key: `turn-ratio ${bounds.clipLow} ${bounds.clipHigh} ${bounds.dualClip} ${logRatioMax}`,
    build: ({ logprobs, column, segments }) => {
      const free = segments.sum(multiply(column('weight'), subtract(logprobs, column('old.logprob'))));
      const most = scalar(logRatioMax);
      const ratio = exp(minimum(free, most));
      const { loss, clipped } = surrogateGraph(segments.weight, ratio, bounds);
      return {
        loss: sum(loss, [0, 1]),
        report: { clip_share: segments.spread(maximum(clipped, less(most, free))), ratio: segments.spread(ratio) },
      };
    },
  };
}

export type TurnLosses = {
  /** Of each sequence the loss of each turn, in order of first appearance. */
  readonly turns: readonly (readonly number[])[];
  readonly loss: number;
};

/**
 * The same in plain numbers.
 * @throws TroupeError `method_input` when no sequence has a turn.
 */
export function turnRatioMean(
  sequences: readonly (TurnTokens & { readonly logRatio: readonly number[] })[],
  { aggregation = 'trajectory', ...options }: TurnRatioOptions & { readonly aggregation?: TurnAggregation } = {},
): TurnLosses {
  const { logRatioMax = LOG_RATIO_MAX } = options;
  const turns = sequences.map(({ turn, advantage, logRatio }) =>
    turnsOf(turn).map((tokens) => {
      const ratio = Math.exp(Math.min(mean(tokens.map((t) => logRatio[t]!)), logRatioMax));
      return surrogate(mean(tokens.map((t) => advantage[t]!)), ratio, boundsOf(options)).loss;
    }),
  );
  const filled = turns.filter((of) => of.length > 0);
  if (filled.length === 0) refuseInput('turn', 'a turn id other than -100 of at least one token', 'none');
  return { turns, loss: aggregation === 'turn' ? mean(filled.flat()) : mean(filled.map((of) => mean(of))) };
}

const Column = Type.Array(Type.Number());
const Input = Type.Object({ log_ratio: Column, advantage: Column, turn: Type.Array(Type.Integer()) });
type Params = {
  readonly clip_low: number;
  readonly clip_high: number;
  readonly clip_c: number | null;
  readonly log_ratio_clip_c: number;
};
const params: Params = { clip_low: 0.2, clip_high: 0.2, clip_c: 3, log_ratio_clip_c: LOG_RATIO_MAX };
type TurnRatios = { readonly turn: readonly number[]; readonly loss: number };

export const turnRatio: LossMethod<Static<typeof Input>, Params, TurnRatios> = {
  name: 'turn_ratio_loss',
  kind: 'loss',
  source: 'ReMA: arXiv:2503.09501, its fork of verl (compute_policy_loss, clip_mode turn); verified (code)',
  version: 1,
  summary: 'The clipped policy loss of each turn of a sequence, and their mean.',
  params,
  limits: {
    clip_low: Type.Number({ minimum: 0, maximum: 1 }),
    clip_high: Type.Number({ minimum: 0 }),
    clip_c: nullable(Type.Number({ exclusiveMinimum: 1 })),
    log_ratio_clip_c: Type.Number({ exclusiveMinimum: 0 }),
  },
  input: Input,
  run: ({ log_ratio, advantage, turn }, { clip_low, clip_high, clip_c, log_ratio_clip_c }) => {
    requireRows('advantage', advantage, log_ratio.length, 'log_ratio');
    requireRows('turn', turn, log_ratio.length, 'log_ratio');
    const options = { clipLow: clip_low, clipHigh: clip_high, dualClip: clip_c, logRatioMax: log_ratio_clip_c };
    const { turns, loss } = turnRatioMean([{ logRatio: log_ratio, advantage, turn }], options);
    return { turn: turns[0]!, loss };
  },
};
