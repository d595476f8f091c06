import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ppoClipToken } from '../../trainer/model/losses/ppo-clip.ts';
import { type TurnRatioOptions, turnRatioLoss, turnRatioMean } from '../../trainer/model/losses/turn-ratio.ts';
import {
  NO_TURN,
  type TurnAggregation,
  type TurnTokens,
  turnSegments,
} from '../../trainer/model/losses/turn-segments.ts';
import { randomStream } from '../../trainer/tensor/random.ts';
import { evaluate, expectAsPlain, expectNear, type Tokens, total } from './losses-graph.ts';

/** Rows of sequences of turns: of one or more completions, a turn of one token, one that is none, a sequence without any. */
const TURNS = [
  [[0, 0, 1, 1, NO_TURN, 2]],
  [
    [NO_TURN, 4, 4, 4],
    [NO_TURN, NO_TURN],
    [7, NO_TURN, 7, 8, 8, 9],
  ],
  [[0, 0, 0]],
];

function randomRows(seed: number, spread: number) {
  const { normal, uniform } = randomStream(seed);
  const list = (of: () => number, like: readonly number[]) => like.map(() => Math.fround(of()));
  return TURNS.map((row) =>
    row.map((turn) => ({
      turn,
      advantage: list(normal, turn),
      logprobs: list(() => -spread * uniform(), turn),
      old: list(() => -spread * uniform(), turn),
    })),
  );
}
type Rows = ReturnType<typeof randomRows>;

/** The trained tokens of rows as a batch has them: the segments of each row after those of the rows before. */
function batchOf(rows: Rows, segmentsOf: ReturnType<typeof turnSegments>): Tokens & { readonly place: number[][] } {
  const tokens = { logprobs: [], 'old.logprob': [], weight: [], segment: [] } as Record<string, number[]>;
  const segmentWeights: number[] = [];
  const place: number[][] = [];
  for (const [q, row] of rows.entries()) {
    const made = segmentsOf[q]!;
    for (const [i, { logprobs, old }] of row.entries()) {
      const { weights, segments } = made.completions[i]!;
      for (const [t, weight] of weights.entries()) {
        if (weight === 0) continue;
        tokens.logprobs!.push(logprobs[t]!);
        tokens['old.logprob']!.push(old[t]!);
        tokens.weight!.push(weight);
        tokens.segment!.push(segmentWeights.length + segments[t]!);
        place.push([q, i, t]);
      }
    }
    segmentWeights.push(...made.segmentWeights);
  }
  return { ...tokens, segmentWeights, place };
}

/** The loss by its definition, with the log-probabilities of the trained tokens put in place of the rows' own. */
function plain(rows: Rows, place: number[][], logprobs: readonly number[], options: object): number {
  const moved = structuredClone(rows) as { logprobs: number[] }[][];
  for (const [k, [q, i, t]] of place.entries()) moved[q!]![i!]!.logprobs[t!] = logprobs[k]!;
  const sequences = rows.flat().map(({ turn, advantage, old }, i) => ({
    turn,
    advantage,
    logRatio: moved.flat()[i]!.logprobs.map((p, t) => p - old[t]!),
  }));
  return turnRatioMean(sequences, options).loss;
}

describe('the policy loss by turns', () => {
  const options: readonly (TurnRatioOptions & { readonly aggregation: TurnAggregation })[] = [
    { aggregation: 'trajectory' },
    { aggregation: 'turn' },
    { aggregation: 'trajectory', clipLow: 0.1, clipHigh: 0.4, dualClip: null },
    { aggregation: 'turn', dualClip: 2, logRatioMax: 0.5 },
  ];

  it.each(options)('is in the graph what it is in plain numbers, with its gradient: %j', async (option) => {
    for (const [seed, spread] of [
      [41, 0.4],
      [42, 2],
      [43, 9],
    ] as const) {
      const rows = randomRows(seed, spread);
      const { place, ...tokens } = batchOf(rows, turnSegments(rows, option));
      await expectAsPlain(turnRatioLoss(option), tokens, 'logprobs', ({ logprobs }) =>
        plain(rows, place, logprobs!, option),
      );
    }
  });

  it('moves the tokens of a turn together, and none of a turn that a bound holds', async () => {
    const rows = randomRows(44, 4);
    const { place, ...tokens } = batchOf(rows, turnSegments(rows));
    const { slope, report } = await evaluate(turnRatioLoss(), tokens, 'logprobs');
    for (const segment of new Set(tokens.segment)) {
      const of = place.map((_, k) => k).filter((k) => tokens.segment![k] === segment);
      expect(new Set(of.map((k) => slope[k])).size).toBe(1);
      expect(new Set(of.map((k) => report.ratio![k])).size).toBe(1);
    }
    expect(slope.map((d) => d === 0)).toEqual(report.clip_share!.map((share) => share === 1));
    expect(new Set(report.clip_share)).toEqual(new Set([0, 1]));
  });

  it('holds the ratio of a turn down and not up', async () => {
    const turn = [0, 0];
    const rows = [-50, 50].map((logRatio) => [
      { turn, advantage: [-1, -1], logprobs: [logRatio, logRatio], old: [0, 0] },
    ]);
    const { place: _, ...tokens } = batchOf(rows, turnSegments(rows));
    const { report, loss } = await evaluate(turnRatioLoss({ dualClip: null }), tokens, 'logprobs');
    for (const [k, ratio] of [0, 0, Math.exp(3), Math.exp(3)].entries()) expectNear(report.ratio![k]!, ratio, 'ratio');
    expectNear(loss, (0.8 + Math.exp(3)) / 2, 'loss');
  });

  it('is the loss by tokens where every turn is one token', () => {
    const token = fc.tuple(fc.double({ min: -2, max: 2, noNaN: true }), fc.double({ min: -2, max: 2, noNaN: true }));
    fc.assert(
      fc.property(fc.array(token, { minLength: 1, maxLength: 6 }), (drawn) => {
        const sequence = {
          turn: drawn.map((_, t) => t),
          logRatio: drawn.map(([ratio]) => ratio),
          advantage: drawn.map(([, advantage]) => advantage),
        };
        const { turns } = turnRatioMean([sequence]);
        for (const [t, [ratio, advantage]] of drawn.entries()) {
          expect(turns[0]![t]).toBeCloseTo(ppoClipToken(ratio, 0, advantage).loss, 9);
        }
      }),
    );
  });

  it('in two parts sums to the whole', async () => {
    const rows = randomRows(45, 1);
    const made = turnSegments(rows);
    const parts = [
      batchOf(rows, made),
      batchOf(rows.slice(0, 1), made.slice(0, 1)),
      batchOf(rows.slice(1), made.slice(1)),
    ];
    const [whole, ...halves] = await Promise.all(
      parts.map(({ place: _, ...tokens }) => evaluate(turnRatioLoss(), tokens, 'logprobs')),
    );
    expectNear(total(halves.map(({ loss }) => loss)), whole!.loss, 'loss');
    expect(halves.flatMap(({ slope }) => slope)).toEqual(whole!.slope);
  });
});

describe('turns as segments', () => {
  const tokens = fc.array(fc.constantFrom(NO_TURN, 0, 1, 2, 5), { maxLength: 8 });
  const rows = fc.array(fc.array(tokens, { minLength: 1, maxLength: 3 }), { minLength: 1, maxLength: 4 });
  const withAdvantage = (of: number[][][], advantage: number): TurnTokens[][] =>
    of.map((row) => row.map((turn) => ({ turn, advantage: turn.map(() => advantage) })));

  it('weigh 1 by their tokens, and 1 together where the advantage is 1', () => {
    fc.assert(
      fc.property(rows, fc.constantFrom<TurnAggregation>('trajectory', 'turn'), (turns, aggregation) => {
        const made = turnSegments(withAdvantage(turns, 1), { aggregation });
        for (const [q, { completions, segmentWeights }] of made.entries()) {
          for (const segment of segmentWeights.keys()) {
            const of = completions.flatMap(({ weights, segments }) =>
              weights.filter((_, t) => segments[t] === segment),
            );
            expect(total(of)).toBeCloseTo(1, 9);
          }
          const trained = completions.map(({ weights }) => weights.map((weight) => weight > 0));
          expect(trained).toEqual(turns[q]!.map((turn) => turn.map((id) => id !== NO_TURN)));
        }
        const any = turns.flat(2).some((id) => id !== NO_TURN);
        expect(total(made.flatMap(({ segmentWeights }) => segmentWeights))).toBeCloseTo(any ? 1 : 0, 9);
      }),
    );
  });

  it('share a mean equally by turns, and by sequences first where that is asked for', () => {
    const turns = withAdvantage([[[0, 0, 1]], [[0, NO_TURN]]], 6);
    const weights = (aggregation: TurnAggregation) =>
      turnSegments(turns, { aggregation }).map(({ segmentWeights }) => segmentWeights);
    expect(weights('turn')).toEqual([[2, 2], [2]]);
    expect(weights('trajectory')).toEqual([[1.5, 1.5], [3]]);
  });
});
