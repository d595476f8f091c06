import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { lower } from '../../trainer/tensor/lower.ts';
import { inOrder, plus, times, type Value } from '../../trainer/tensor/node.ts';
import * as o from '../../trainer/tensor/operations.ts';
import { simplify } from '../../trainer/tensor/rewrite.ts';
import { openSession } from '../../trainer/tensor/session.ts';

const count = (value: Value, op: string) => inOrder(simplify([value])).filter((n) => n.op === op).length;
const matrix = (...shape: [number, number]) => ({
  shape,
  data: Float32Array.from({ length: shape[0] * shape[1] }, (_, i) => Math.sin(i + 1)),
});

describe('a dimension', () => {
  it('has one spelling for a product, however it was made', () => {
    expect(times('Q', 2, 'n')).toBe('2*Q*n');
    expect(times(times('n', 'Q'), 3)).toBe(times(3, 'Q', 'n'));
    expect(times('Q', plus(1, 'S'))).toBe('(1+S)*Q');
    expect(times(2, 3)).toBe(6);
    expect(plus(1, 2)).toBe(3);
    fc.assert(
      fc.property(fc.shuffledSubarray(['a', 'b', 'c', 'd', 2, 5, '(1+e)'], { minLength: 1 }), (dims) => {
        expect(times(...dims.toReversed())).toBe(times(...dims));
        expect(times(times(...dims.slice(0, 2)), ...dims.slice(2))).toBe(times(...dims));
      }),
    );
  });
});

describe('a graph', () => {
  it('refuses shapes that do not fit when it is built', () => {
    const a = o.input('a', ['N', 3]);
    expect(() => o.add(a, o.input('b', ['N', 2]))).toThrow(/differ at dimension 1/);
    expect(() => o.matmul(a, o.input('b', [4, 3]))).toThrow(/cannot join/);
    expect(() => o.reshape(a, ['N', 4])).toThrow(/cannot be reshaped/);
    expect(() => o.constant(new Float32Array(3), [2, 2])).toThrow(/holds 4, got 3/);
  });

  it('serves any batch from one session when its dimensions are symbols', async () => {
    const x = o.input('x', ['B', 'S', 4]);
    const mixed = o.reshape(o.transpose(x, [1, 0, 2]), [times('B', 'S'), 4]);
    const both = o.concat(
      [o.reshape(mixed, ['S', 'B', 4]), o.expand(o.constant(new Float32Array(4), [1, 1, 4]), ['S', 'B', 4])],
      1,
    );
    const session = await openSession({ both });
    for (const [B, S] of [
      [2, 3],
      [1, 1],
      [5, 2],
    ] as const) {
      const data = Float32Array.from({ length: B * S * 4 }, (_, i) => i + 1);
      const { both: out } = await session.run({ x: { shape: [B, S, 4], data } }, { both: null });
      expect(out!.shape).toEqual([S, 2 * B, 4]);
      for (let s = 0; s < S; s++) {
        for (let b = 0; b < B; b++) {
          expect(out!.data[(s * 2 * B + b) * 4]).toBe(data[(b * S + s) * 4]);
          expect(out!.data[(s * 2 * B + B + b) * 4]).toBe(0);
        }
      }
    }
    await session.close();
  });

  it('names a dimension that no input carries', () => {
    const x = o.input('x', [2]);
    expect(() => lower({ y: o.expand(o.reshape(x, [1, 2]), ['Z', 2]) })).toThrow(/no input has the dimension Z/);
  });

  it('names an input that was not fed', async () => {
    const session = await openSession({ y: o.exp(o.input('x', ['N'])) });
    await expect(session.run({}, { y: null })).rejects.toThrow(/needs the input x/);
    await session.close();
  });

  it('writes results into buffers it is given', async () => {
    const session = await openSession({ y: o.negate(o.input('x', ['N'])) });
    const into = { shape: [2], data: new Float32Array(2) };
    const out = await session.run({ x: { shape: [2], data: Float32Array.of(3, 4) } }, { y: into });
    expect([...into.data]).toEqual([-3, -4]);
    expect(out.y).toBe(into);
    await session.close();
  });
});

describe('simplifying a graph', () => {
  const a = o.input('a', [3, 3]);
  const b = o.input('b', [3, 3]);

  it('computes a shared subexpression once', () => {
    expect(count(o.add(o.exp(o.negate(a)), o.sum(o.exp(o.negate(a)), [0])), 'Exp')).toBe(1);
    expect(count(o.add(o.multiply(a, o.scalar(2)), o.multiply(a, o.scalar(3))), 'Multiply')).toBe(2);
  });

  it('folds constants and drops what changes nothing', () => {
    const two = o.add(o.scalar(1), o.exp(o.scalar(0)));
    const value = o.multiply(o.multiply(a, o.scalar(1)), o.negate(o.negate(two)));
    expect(inOrder(simplify([value])).map((n) => n.op)).toEqual(['Input', 'Constant', 'Multiply']);
    expect(simplify([o.transpose(o.transpose(a, [1, 0]), [1, 0])])).toEqual([a]);
    expect(simplify([o.reshape(o.reshape(a, [9]), [3, 3])])).toEqual([a]);
  });

  it('starts a product from what is added to it, unless others read the product', () => {
    const product = o.matmul(a, b);
    expect(count(o.add(product, a), 'Add')).toBe(0);
    expect(count(o.add(o.add(product, a), o.exp(product)), 'Add')).toBe(2);
  });

  it('changes no result', async () => {
    const ids = o.constant(Float32Array.of(0.5, 1, 2), [3]);
    const product = o.matmul(a, b, { transB: true, alpha: 0.5 });
    const value = o.add(
      o.add(product, o.multiply(o.exp(a), o.scalar(1))),
      o.add(o.matmul(b, o.transpose(o.transpose(a, [1, 0]), [1, 0])), o.multiply(o.exp(a), ids)),
    );
    const session = await openSession({ value });
    const [x, y] = [matrix(3, 3), matrix(3, 3)];
    y.data.reverse();
    const { value: out } = await session.run({ a: x, b: y }, { value: null });
    const at = (m: typeof x, i: number, j: number) => m.data[i * 3 + j]!;
    for (let i = 0; i < 3; i++) {
      for (let j = 0; j < 3; j++) {
        let expected = Math.exp(at(x, i, j)) * (1 + [0.5, 1, 2][j]!);
        for (let k = 0; k < 3; k++) expected += 0.5 * at(x, i, k) * at(y, j, k) + at(y, i, k) * at(x, k, j);
        expect(out!.data[i * 3 + j]).toBeCloseTo(expected, 5);
      }
    }
    await session.close();
  });
});
