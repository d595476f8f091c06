import { describe, expect, it } from 'vitest';
import { gradients, RULES } from '../../trainer/tensor/gradient.ts';
import type { ElementType, Op, Value } from '../../trainer/tensor/node.ts';
import * as o from '../../trainer/tensor/operations.ts';
import { randomStream } from '../../trainer/tensor/random.ts';
import { type Feed, type Feeds, openSession } from '../../trainer/tensor/session.ts';

type Port = { readonly shape: readonly number[]; readonly data?: readonly number[]; readonly type?: ElementType };
type Case = {
  readonly op: Op;
  readonly what: string;
  readonly inputs: readonly Port[];
  readonly build: (...values: Value[]) => Value | readonly Value[];
};

const x = (...shape: number[]): Port => ({ shape });
const near = (shape: number[], data: number[]): Port => ({ shape, data });
const ids = (shape: number[], data: number[]): Port => ({ shape, data, type: 'int32' });
const angles = [0.3, 1.1, -0.7, 2.0, 0.9, -1.6];

const CASES: readonly Case[] = [
  { op: 'Add', what: 'with broadcast', inputs: [x(2, 3), x(3)], build: (a, b) => o.add(a!, b!) },
  { op: 'Subtract', what: 'with broadcast', inputs: [x(2, 3), x(2, 1)], build: (a, b) => o.subtract(a!, b!) },
  { op: 'Multiply', what: 'with broadcast', inputs: [x(2, 3), x(1, 3)], build: (a, b) => o.multiply(a!, b!) },
  { op: 'Multiply', what: 'of a value with itself', inputs: [x(2, 3)], build: (a) => o.multiply(a!, a!) },
  {
    op: 'Divide',
    what: 'with broadcast',
    inputs: [x(2, 3), near([3], [1.2, -0.8, 2])],
    build: (a, b) => o.divide(a!, b!),
  },
  { op: 'Negate', what: 'of a matrix', inputs: [x(2, 3)], build: (a) => o.negate(a!) },
  { op: 'Exp', what: 'of a matrix', inputs: [x(2, 3)], build: (a) => o.exp(a!) },
  { op: 'Sigmoid', what: 'of a matrix', inputs: [x(2, 3)], build: (a) => o.sigmoid(a!) },
  { op: 'Silu', what: 'of a matrix', inputs: [x(2, 3)], build: (a) => o.silu(a!) },
  {
    op: 'Minimum',
    what: 'away from ties',
    inputs: [near([4], [1, -1, 0.5, 2]), near([4], [0.2, 0.3, 0.9, -3])],
    build: (a, b) => o.minimum(a!, b!),
  },
  {
    op: 'Maximum',
    what: 'away from ties',
    inputs: [near([4], [1, -1, 0.5, 2]), near([4], [0.2, 0.3, 0.9, -3])],
    build: (a, b) => o.maximum(a!, b!),
  },
  { op: 'Softplus', what: 'of large and small', inputs: [near([4], [-3, -0.1, 0.2, 4])], build: (a) => o.softplus(a!) },
  { op: 'Clip', what: 'inside and outside', inputs: [near([4], [-2, -0.5, 0.4, 3])], build: (a) => o.clip(a!, -1, 1) },
  {
    op: 'Less',
    what: 'as a mask',
    inputs: [near([4], [1, -1, 0.5, 2]), near([4], [0.2, 0.3, 0.9, -3])],
    build: (a, b) => o.multiply(o.less(a!, b!), o.add(a!, b!)),
  },
  { op: 'MatMul', what: 'a b', inputs: [x(2, 3), x(3, 4)], build: (a, b) => o.matmul(a!, b!, { alpha: 0.5 }) },
  { op: 'MatMul', what: 'a bT', inputs: [x(2, 3), x(4, 3)], build: (a, b) => o.matmul(a!, b!, { transB: true }) },
  { op: 'MatMul', what: 'aT b', inputs: [x(3, 2), x(3, 4)], build: (a, b) => o.matmul(a!, b!, { transA: true }) },
  {
    op: 'MatMul',
    what: 'aT bT in batches',
    inputs: [x(2, 2, 3, 2), x(2, 2, 4, 3)],
    build: (a, b) => o.matmul(a!, b!, { transA: true, transB: true, alpha: 2 }),
  },
  {
    op: 'MatMul',
    what: 'a bT + c',
    inputs: [x(2, 3), x(4, 3), x(2, 4)],
    build: (a, b, c) => o.matmul(a!, b!, { transB: true }, c!),
  },
  { op: 'Reshape', what: 'of a matrix', inputs: [x(2, 6)], build: (a) => o.exp(o.reshape(a!, [3, 4])) },
  {
    op: 'Transpose',
    what: 'of four axes',
    inputs: [x(2, 3, 1, 4)],
    build: (a) => o.exp(o.transpose(a!, [2, 0, 3, 1])),
  },
  { op: 'Concat', what: 'of two', inputs: [x(2, 3), x(2, 1)], build: (a, b) => o.exp(o.concat([a!, b!], 1)) },
  { op: 'Split', what: 'into two, both used', inputs: [x(2, 5)], build: (a) => o.split(o.exp(a!), [3, 2], 1) },
  { op: 'Split', what: 'into two, one used', inputs: [x(2, 5)], build: (a) => o.split(o.exp(a!), [3, 2], 1)[1]! },
  { op: 'Expand', what: 'along one axis', inputs: [x(2, 1, 3)], build: (a) => o.exp(o.expand(a!, [2, 4, 3])) },
  { op: 'Sum', what: 'over the last axis', inputs: [x(2, 3)], build: (a) => o.sum(o.exp(a!), [1], true) },
  { op: 'Sum', what: 'over two axes', inputs: [x(2, 3, 2)], build: (a) => o.sum(o.exp(a!), [0, 2]) },
  { op: 'Softmax', what: 'over the last axis', inputs: [x(2, 4)], build: (a) => o.softmax(a!) },
  { op: 'LogSoftmax', what: 'used whole', inputs: [x(2, 4)], build: (a) => o.logSoftmax(a!) },
  {
    op: 'LogSoftmax',
    what: 'of which one element a row is used',
    inputs: [x(3, 4), ids([3, 1], [2, 0, 3])],
    build: (a, i) => o.pick(o.logSoftmax(a!), i!),
  },
  {
    op: 'TokenLogprobs',
    what: 'of which the target is used',
    inputs: [x(3, 4), x(5, 4), ids([3, 1], [2, 0, 2])],
    build: (a, w, i) => o.tokenLogprobs(a!, w!, i!).logprobs,
  },
  {
    op: 'TokenLogprobs',
    what: 'of which target and distribution are used',
    inputs: [x(3, 4), x(5, 4), ids([3, 1], [2, 0, 2])],
    build: (a, w, i) => {
      const { logprobs, distribution } = o.tokenLogprobs(a!, w!, i!);
      return [logprobs, o.exp(distribution)];
    },
  },
  {
    op: 'TokenLogprobs',
    what: 'of which the distribution alone is used',
    inputs: [x(3, 4), x(5, 4), ids([3, 1], [2, 0, 2])],
    build: (a, w, i) => o.exp(o.tokenLogprobs(a!, w!, i!).distribution),
  },
  {
    op: 'ChunkedTokenLogprobs',
    what: 'in pieces of unequal size',
    inputs: [x(3, 4), x(5, 4), ids([3, 1], [2, 0, 4])],
    build: (a, w, i) => o.chunkedTokenLogprobs(a!, w!, i!, 3),
  },
  {
    op: 'Attention',
    what: 'under a causal mask',
    inputs: [x(2, 1, 3, 4), x(2, 1, 3, 4), x(2, 1, 3, 4)],
    build: (q, k, v) =>
      o.attention(q!, k!, v!, o.constant(Float32Array.of(0, -1e9, -1e9, 0, 0, -1e9, 0, 0, 0), [3, 3]), 0.5),
  },
  {
    op: 'TakeRows',
    what: 'of all rows in another order',
    inputs: [x(3, 2), ids([3], [2, 0, 1]), ids([3], [1, 2, 0])],
    build: (a, i, j) => o.exp(o.takeRows(a!, i!, j!)),
  },
  {
    op: 'SpreadRows',
    what: 'to some places of zeros',
    inputs: [x(2, 3), ids([2], [3, 1])],
    build: (a, i) => o.exp(o.spreadRows(a!, i!, [4, 3])),
  },
  { op: 'After', what: 'another value', inputs: [x(2, 3), x(4)], build: (a, b) => o.exp(o.after(a!, b!)) },
  {
    op: 'GatherRows',
    what: 'of rows that are all different',
    inputs: [x(4, 3), ids([3], [2, 0, 3])],
    build: (a, i) => o.exp(o.distinctRows(a!, i!)),
  },
  {
    op: 'GatherRows',
    what: 'with a repeated row',
    inputs: [x(4, 3), ids([3], [2, 0, 2])],
    build: (a, i) => o.exp(o.gatherRows(a!, i!)),
  },
  {
    op: 'ScatterRows',
    what: 'onto a base',
    inputs: [x(3, 2), ids([3], [1, 0, 1]), x(4, 2)],
    build: (a, i, b) => o.exp(o.scatterRows(a!, i!, [4, 2], b!)),
  },
  { op: 'Pick', what: 'one element a row', inputs: [x(3, 4), ids([3, 1], [2, 0, 3])], build: (a, i) => o.pick(a!, i!) },
  {
    op: 'Place',
    what: 'one element a row',
    inputs: [x(3, 1), ids([3, 1], [2, 0, 3]), x(3, 4)],
    build: (a, i, b) => o.exp(o.place(a!, i!, b!)),
  },
  { op: 'RmsNorm', what: 'of rows', inputs: [x(3, 4), x(4)], build: (a, w) => o.rmsNorm(a!, w!, 1e-5).y },
  {
    op: 'Rotary',
    what: 'of two heads',
    inputs: [
      x(2, 3, 8),
      near(
        [3, 2],
        angles.map((a) => Math.cos(a)),
      ),
      near(
        [3, 2],
        angles.map((a) => Math.sin(a)),
      ),
    ],
    build: (a, c, s) => o.exp(o.rotary(a!, c!, s!)),
  },
];

describe('every gradient rule agrees with finite differences', () => {
  it('for each operation that has a rule', () => {
    expect(new Set(CASES.map((c) => c.op))).toEqual(new Set(Object.keys(RULES)));
  });

  for (const testCase of CASES) {
    it(`for ${testCase.op}, ${testCase.what}`, async () => {
      const random = randomStream(11);
      const ports = testCase.inputs.map((port, i) => o.input(`x${i}`, port.shape, port.type));
      const built = testCase.build(...ports);
      const outs = Array.isArray(built) ? (built as readonly Value[]) : [built as Value];
      const weights = outs.map((v) => Float32Array.from({ length: size(v.shape as number[]) }, random.normal));
      const loss = outs
        .map((v, i) => o.multiply(v, o.constant(weights[i]!, v.shape as number[])))
        .map((v) => o.sum(v, [...v.shape.keys()]))
        .reduce((a, b) => o.add(a, b));
      // Rotary tables are positions, integers are indices, and what comes first is only waited for: none is trained.
      const untrained = ['Rotary', 'After'].includes(testCase.op) ? 1 : ports.length;
      const wanted = ports.filter((p, i) => p.type === 'float32' && i < untrained);
      const outputs: Record<string, Value> = {};
      for (const [i, v] of outs.entries()) outputs[`y${i}`] = v;
      for (const [i, g] of gradients(loss, wanted).entries()) outputs[`d.${wanted[i]!.node.attributes.name}`] = g;
      const session = await openSession(outputs);
      const feeds: Record<string, Feed> = {};
      for (const [i, port] of testCase.inputs.entries()) {
        const data = port.data ?? Array.from({ length: size(port.shape) }, random.normal);
        feeds[`x${i}`] = {
          shape: port.shape,
          data: port.type === 'int32' ? Int32Array.from(data) : Float32Array.from(data),
        };
      }
      const value = async (given: Feeds): Promise<number> => {
        const got = await session.run(given, Object.fromEntries(outs.map((_, i) => [`y${i}`, null])));
        let total = 0;
        for (const i of outs.keys()) for (const [j, y] of got[`y${i}`]!.data.entries()) total += y * weights[i]![j]!;
        return total;
      };
      const names = wanted.map((v) => v.node.attributes.name as string);
      const got = await session.run(feeds, Object.fromEntries(names.map((n) => [`d.${n}`, null])));
      const h = 1e-2;
      for (const name of names) {
        const at = feeds[name] as Feed;
        for (const i of at.data.keys()) {
          const moved = (by: number) => {
            const data = Float32Array.from(at.data);
            data[i]! += by;
            return value({ ...feeds, [name]: { shape: at.shape, data } });
          };
          const slope = ((await moved(h)) - (await moved(-h))) / (2 * h);
          const analytic = got[`d.${name}`]!.data[i]!;
          // Central differences err by h²/6 of a third derivative.
          expect(Math.abs(slope - analytic), `${name}[${i}]: ${slope} and ${analytic}`).toBeLessThan(
            3e-3 * Math.max(1, Math.abs(analytic)),
          );
        }
      }
      await session.close();
    });
  }

  it('and an operation without a rule fails by name', () => {
    const a = o.input('a', [2, 3]);
    const { inverse } = o.rmsNorm(a, o.input('w', [3]), 1e-5);
    expect(() => gradients(o.sum(inverse, [0, 1]), [a])).toThrow(/RmsNorm/);
  });
});

function size(shape: readonly number[]): number {
  return shape.reduce((a, b) => a * b, 1);
}
