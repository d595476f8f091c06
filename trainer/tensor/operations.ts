/** The vocabulary of the graph: one builder an operation, each checks and infers shapes. */
import { TroupeError } from '../../errors.ts';
import {
  type Attributes,
  broadcast,
  type Dim,
  type ElementType,
  node,
  type Op,
  plus,
  type Shape,
  sameShape,
  times,
  type Value,
} from './node.ts';

/** A value fed at run time under `name`. */
export const input = (name: string, shape: Shape, type: ElementType = 'float32'): Value =>
  first('Input', [], { name }, shape, type);

export function constant(data: Float32Array, shape: readonly number[]): Value {
  const size = shape.reduce((a, b) => a * b, 1);
  if (size !== data.length)
    throw new TroupeError('internal', `a constant [${shape}] holds ${size}, got ${data.length}`);
  return first('Constant', [], { data }, shape);
}

export const scalar = (x: number): Value => constant(Float32Array.of(x), []);

export const add = (a: Value, b: Value): Value => first('Add', [a, b], {}, broadcast(a.shape, b.shape));
export const subtract = (a: Value, b: Value): Value => first('Subtract', [a, b], {}, broadcast(a.shape, b.shape));
export const multiply = (a: Value, b: Value): Value => first('Multiply', [a, b], {}, broadcast(a.shape, b.shape));
export const divide = (a: Value, b: Value): Value => first('Divide', [a, b], {}, broadcast(a.shape, b.shape));
export const minimum = (a: Value, b: Value): Value => first('Minimum', [a, b], {}, broadcast(a.shape, b.shape));
export const maximum = (a: Value, b: Value): Value => first('Maximum', [a, b], {}, broadcast(a.shape, b.shape));
/** 1 where a < b, else 0. Constant almost everywhere, so its gradient is none. */
export const less = (a: Value, b: Value): Value => first('Less', [a, b], {}, broadcast(a.shape, b.shape));
export const negate = (a: Value): Value => first('Negate', [a], {}, a.shape);
export const exp = (a: Value): Value => first('Exp', [a], {}, a.shape);
export const sigmoid = (a: Value): Value => first('Sigmoid', [a], {}, a.shape);
/** x · sigmoid(x). */
export const silu = (a: Value): Value => first('Silu', [a], {}, a.shape);
/** log(1 + exp(x)) without overflow; −softplus(−x) is log σ(x). */
export const softplus = (a: Value): Value => first('Softplus', [a], {}, a.shape);
export const clip = (a: Value, low: number, high: number): Value => first('Clip', [a], { low, high }, a.shape);

type MatMulOptions = { readonly transA?: boolean; readonly transB?: boolean; readonly alpha?: number };

/** alpha · op(a) op(b) over equal leading dimensions; op transposes the last two. `c`, two-dimensional only, is added. */
export function matmul(
  a: Value,
  b: Value,
  { transA = false, transB = false, alpha = 1 }: MatMulOptions = {},
  c?: Value,
): Value {
  const rank = a.shape.length;
  const dim = (v: Value, fromEnd: number): Dim => v.shape[v.shape.length - fromEnd] as Dim;
  const [m, k] = transA ? [dim(a, 1), dim(a, 2)] : [dim(a, 2), dim(a, 1)];
  const [k2, n] = transB ? [dim(b, 1), dim(b, 2)] : [dim(b, 2), dim(b, 1)];
  const batch = a.shape.slice(0, -2);
  if (k !== k2 || rank !== b.shape.length || !sameShape(batch, b.shape.slice(0, -2))) {
    throw new TroupeError('internal', `matmul cannot join [${a.shape}] and [${b.shape}]`);
  }
  const inputs = c === undefined ? [a, b] : [a, b, c];
  return first('MatMul', inputs, { transA, transB, alpha }, [...batch, m, n]);
}

/** x [N, in] with a weight [out, in] as stored: [N, out]. */
export const linear = (x: Value, weight: Value): Value => matmul(x, weight, { transB: true });

export function reshape(a: Value, shape: Shape): Value {
  if (times(...a.shape) !== times(...shape)) {
    throw new TroupeError('internal', `[${a.shape}] cannot be reshaped to [${shape}]`);
  }
  return first('Reshape', [a], { shape }, shape, a.type);
}

export const transpose = (a: Value, perm: readonly number[]): Value =>
  first(
    'Transpose',
    [a],
    { perm },
    perm.map((i) => a.shape[i] as Dim),
  );

export function concat(values: readonly Value[], axis: number): Value {
  const shape = [...(values[0] as Value).shape];
  shape[axis] = plus(...values.map((v) => v.shape[axis] as Dim));
  return first('Concat', values, { axis }, shape);
}

/** Pieces along an axis. */
export function split(a: Value, sizes: Shape, axis: number): readonly Value[] {
  const shapes = sizes.map((size) => a.shape.map((dim, i) => (i === axis ? size : dim)));
  return node('Split', [a], { axis, sizes }, shapes).outputs;
}

/** Repeats dimensions of size 1; the rank stays. */
export const expand = (a: Value, shape: Shape): Value =>
  sameShape(a.shape, shape) ? a : first('Expand', [a], { shape }, shape);

export function sum(a: Value, axes: readonly number[], keepDims = false): Value {
  const shape = a.shape.flatMap((dim, i): Dim[] => (axes.includes(i) ? (keepDims ? [1] : []) : [dim]));
  return first('Sum', [a], { axes, keepDims }, shape);
}

/** The largest of the last axis, which stays as 1. Read by reports only: it has no gradient rule. */
export const largest = (a: Value): Value => first('Largest', [a], {}, [...a.shape.slice(0, -1), 1]);

/** Over the last axis. */
export const softmax = (a: Value): Value => first('Softmax', [a], {}, a.shape);
/** Over the last axis. */
export const logSoftmax = (a: Value): Value => first('LogSoftmax', [a], {}, a.shape);

/**
 * Log-probabilities of one token a row under softmax(x·Wᵀ), for x [K, d], W [V, d] and target [K, 1] int32: `logprobs` [K, 1] and
 * `distribution` [K, V], those of all tokens. One node, because the gradient of the target's logit is a row of W and none of [K, V].
 */
export function tokenLogprobs(
  x: Value,
  weight: Value,
  target: Value,
): { readonly logprobs: Value; readonly distribution: Value } {
  const [K, V] = [x.shape[0] as Dim, weight.shape[0] as Dim];
  const { outputs } = node('TokenLogprobs', [x, weight, target], {}, [
    [K, 1],
    [K, V],
  ]);
  return { logprobs: outputs[0] as Value, distribution: outputs[1] as Value };
}

/**
 * As `tokenLogprobs` for a vocabulary so large that [K, V] should never exist: logits are computed in `chunks` pieces, forgotten, and
 * computed again for the gradient. [K, 1].
 */
export function chunkedTokenLogprobs(x: Value, weight: Value, target: Value, chunks: number): Value {
  const V = weight.shape[0] as number;
  const size = Math.ceil(V / chunks);
  const sizes = Array.from({ length: Math.ceil(V / size) }, (_, i) => Math.min(size, V - i * size));
  const K = x.shape[0] as Dim;
  const { outputs } = node('ChunkedTokenLogprobs', [x, weight, target, ...split(weight, sizes, 0)], {}, [
    [K, 1],
    [K, 1],
  ]);
  return outputs[0] as Value;
}

/**
 * softmax(alpha · q kᵀ + mask) v for q [B, H, L, D], k and v [B, H, M, D] and a mask [L, M]: [B, H, L, D]. One node, because its
 * gradient needs less than those of its parts together. The mask is never trained.
 */
export function attention(q: Value, k: Value, v: Value, mask: Value, alpha: number): Value {
  const [B, H, L] = q.shape as [Dim, Dim, Dim];
  const M = k.shape[2] as Dim;
  if (!sameShape(mask.shape, [L, M])) {
    throw new TroupeError('internal', `attention needs a mask [${[L, M]}], got [${mask.shape}]`);
  }
  const { outputs } = node('Attention', [q, k, v, mask], { alpha }, [q.shape, [B, H, L, M]]);
  return outputs[0] as Value;
}

/** table [R, d], ids [N] int32: rows [N, d]. */
export const gatherRows = (table: Value, ids: Value): Value =>
  first('GatherRows', [table, ids], {}, [ids.shape[0] as Dim, table.shape[1] as Dim]);

/** As `gatherRows` where no row is asked for twice: its gradient writes rows instead of adding them. */
export const distinctRows = (table: Value, ids: Value): Value =>
  first('GatherRows', [table, ids], { distinct: true }, [ids.shape[0] as Dim, table.shape[1] as Dim]);

/** Rows [N, d] added at ids [N] onto `base` [R, d], or onto zeros where none is given. */
export const scatterRows = (rows: Value, ids: Value, shape: Shape, base?: Value): Value =>
  first('ScatterRows', base === undefined ? [rows, ids] : [rows, ids, base], { shape }, shape);

/**
 * Rows of x [R, d] in another order: row `index[i]` of x at i, so [I, d]. `inverse` [R] is the new place of each row of x. A row may stand
 * at further places too (padding), if nothing that is differentiated reads those: their adjoints are dropped, which is what makes the
 * gradient a copy and no sum.
 */
export const takeRows = (x: Value, index: Value, inverse: Value): Value =>
  first('TakeRows', [x, index, inverse], {}, [index.shape[0] as Dim, x.shape[1] as Dim]);

/** Rows [N, d] written at different places `index` [N] of zeros [R, d]. */
export const spreadRows = (x: Value, index: Value, shape: Shape): Value =>
  first('SpreadRows', [x, index], { shape }, shape);

/** x unchanged, computed no sooner than `other`: an order for the sake of memory, at no cost. */
export const after = (x: Value, other: Value): Value => first('After', [x, other], {}, x.shape, x.type);

/** One element of each row: a [N, V], ids [N, 1] int32: [N, 1]. */
export const pick = (a: Value, ids: Value): Value => first('Pick', [a, ids], {}, [a.shape[0] as Dim, 1]);

/** values [N, 1] added at ids [N, 1] of each row of `base` [N, V]. */
export const place = (values: Value, ids: Value, base: Value): Value =>
  first('Place', [values, ids, base], {}, base.shape);

/** Root-mean-square norm of the rows of x [N, d], scaled by weight [d]: the result, and 1/rms [N, 1]. */
export function rmsNorm(x: Value, weight: Value, epsilon: number): { readonly y: Value; readonly inverse: Value } {
  const { outputs } = node('RmsNorm', [x, weight], { epsilon }, [x.shape, [x.shape[0] as Dim, 1]]);
  return { y: outputs[0] as Value, inverse: outputs[1] as Value };
}

/** Rotates halves of each head: x [B, S, heads·D] by cos and sin [S, D/2]: (a, b) becomes (a·cos − b·sin, b·cos + a·sin). */
export const rotary = (x: Value, cos: Value, sin: Value): Value => first('Rotary', [x, cos, sin], {}, x.shape);

function first(
  op: Op,
  inputs: readonly Value[],
  attributes: Attributes,
  shape: Shape,
  type: ElementType = 'float32',
): Value {
  return node(op, inputs, attributes, [shape], type).outputs[0] as Value;
}
