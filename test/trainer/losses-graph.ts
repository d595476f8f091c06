/** A loss graph on its own, fed with numbers of tokens in place of a model's, and held to plain numbers and to differences of those. */
import { expect } from 'vitest';
import type { Method } from '../../store/evaluate/methods/method.ts';
import { runMethod } from '../../store/evaluate/methods/run.ts';
import { LOSS_METHODS } from '../../trainer/model/losses/catalogue.ts';
import type { Loss, LossTokens, TokenColumn } from '../../trainer/model/losses/loss.ts';
import { gradients } from '../../trainer/tensor/gradient.ts';
import { gatherRows, input, scatterRows } from '../../trainer/tensor/operations.ts';
import { randomStream } from '../../trainer/tensor/random.ts';
import { type Feed, openSession } from '../../trainer/tensor/session.ts';

/** Outputs of the model; a loss is differentiated by one of these. */
export type ModelOutput = 'logprobs' | 'entropy' | 'values';

export type Tokens = { readonly [Name in ModelOutput | TokenColumn]?: readonly number[] } & {
  readonly segment?: readonly number[];
  readonly segmentWeights?: readonly number[];
};

export type Evaluated = {
  readonly loss: number;
  readonly slope: readonly number[];
  readonly report: Readonly<Record<string, readonly number[]>>;
};

export async function evaluate(loss: Loss, tokens: Tokens, by: ModelOutput): Promise<Evaluated> {
  const { segment, segmentWeights, ...columns } = tokens;
  const feeds: Record<string, Feed> = {};
  const K = (tokens[by] as readonly number[]).length;
  for (const [name, data] of Object.entries(columns)) feeds[name] = { shape: [K, 1], data: Float32Array.from(data) };
  const M = segmentWeights?.length ?? 0;
  if (segment !== undefined) feeds.segment = { shape: [K], data: Int32Array.from(segment) };
  feeds['segment.weight'] = { shape: [M, 1], data: Float32Array.from(segmentWeights ?? []) };

  const inputs = new Map(Object.keys(columns).map((name) => [name, input(name, [K, 1])]));
  const given = (name: string) => {
    const value = inputs.get(name);
    if (value === undefined) throw new Error(`the loss reads ${name}, which was not given`);
    return value;
  };
  const ids = input('segment', [K], 'int32');
  const read: LossTokens = {
    get logprobs() {
      return given('logprobs');
    },
    get entropy() {
      return given('entropy');
    },
    get values() {
      return given('values');
    },
    column: given,
    segments: {
      sum: (x) => scatterRows(x, ids, [M, 1]),
      spread: (x) => gatherRows(x, ids),
      weight: input('segment.weight', [M, 1]),
    },
  };
  const built = loss.build(read);
  expect(built.loss.shape).toEqual([]);
  for (const value of Object.values(built.report)) expect(value.shape).toEqual([K, 1]);
  const reports = Object.entries(built.report);
  // A column that the loss passes on as it is cannot be an output of the graph.
  const computed = reports.filter(([, value]) => value.node.op !== 'Input');
  const [slope] = gradients(built.loss, [given(by)]);
  const session = await openSession({
    loss: built.loss,
    slope: slope!,
    ...Object.fromEntries(computed.map(([name, value]) => [`report ${name}`, value])),
  });
  const out = await session.run(feeds, Object.fromEntries(session.outputs.map((name) => [name, null])));
  await session.close();
  return {
    loss: out.loss!.data[0]!,
    slope: [...out.slope!.data],
    report: Object.fromEntries(
      reports.map(([name, value]) => [
        name,
        [...(out[`report ${name}`] ?? feeds[value.node.attributes.name as string])!.data],
      ]),
    ),
  };
}

/** Holds the graph's loss to the plain one within 1e-5 and its gradient to central differences of the plain one. */
export async function expectAsPlain(
  loss: Loss,
  tokens: Tokens,
  by: ModelOutput,
  plain: (tokens: Tokens) => number,
): Promise<Evaluated> {
  const got = await evaluate(loss, tokens, by);
  expectNear(got.loss, plain(tokens), loss.key);
  const outputValues = tokens[by] as readonly number[];
  const step = 1e-5;
  for (const [k, slope] of got.slope.entries()) {
    const moved = (by_: number) => plain({ ...tokens, [by]: outputValues.map((x, i) => (i === k ? x + by_ : x)) });
    expectNear(slope, (moved(step) - moved(-step)) / (2 * step), `${loss.key}: slope of token ${k}`);
  }
  return got;
}

export function expectNear(actual: number, expected: number, what: string, tolerance = 1e-5): void {
  const error = Math.abs(actual - expected) / Math.max(1, Math.abs(expected));
  expect(error, `${what}: ${actual} is not ${expected}`).toBeLessThan(tolerance);
}

/** Tokens as a policy, its older self and its reference might say them, exact in the graph's precision. */
export function randomTokens(seed: number, K: number) {
  const { normal, uniform } = randomStream(seed);
  const list = (of: () => number) => Array.from({ length: K }, () => Math.fround(of()));
  return {
    logprobs: list(() => -3 * uniform()),
    'old.logprob': list(() => -3 * uniform()),
    'ref.logprob': list(() => -3 * uniform()),
    weight: list(normal),
    entropy: list(uniform),
    'entropy.weight': list(() => 0.1 * uniform()),
    'kl.weight': list(() => 0.1 * uniform()),
    values: list(normal),
    return: list(normal),
  };
}

/** The tokens from one place to another, with the segments as they are. */
export function part(tokens: Tokens, from: number, to: number): Tokens {
  const cut = Object.entries(tokens).map(([name, list]) => [
    name,
    name === 'segmentWeights' ? list : list.slice(from, to),
  ]);
  return Object.fromEntries(cut) as Tokens;
}

export const total = (numbers: readonly number[]): number => numbers.reduce((sum, x) => sum + x, 0);

export function runLoss(name: string, input_: unknown): unknown {
  const method = LOSS_METHODS.find((one) => one.name === name);
  if (method === undefined) throw new Error(`no loss is named ${name}`);
  return runMethod(method as unknown as Method, input_);
}
