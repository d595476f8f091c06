/**
 * Reverse-mode differentiation as a table: one rule an operation, from a node and the adjoints of its outputs to the
 * adjoints of its inputs. An operation without a rule fails by name. Each rule is held to finite differences by a test.
 */
import { TroupeError } from '../../errors.ts';
import { type Dim, inOrder, type Node, node, type Op, type Shape, sameShape, type Value } from './node.ts';
import {
  add,
  after,
  concat,
  divide,
  exp,
  expand,
  gatherRows,
  less,
  matmul,
  multiply,
  negate,
  pick,
  place,
  reshape,
  rotary,
  scalar,
  scatterRows,
  sigmoid,
  split,
  spreadRows,
  subtract,
  sum,
  takeRows,
  transpose,
} from './operations.ts';

type Adjoint = Value | null;
/** `in` are the node's inputs, `d` the adjoint of its first output, `all` those of all its outputs. */
type Rule = (step: {
  readonly node: Node;
  readonly in: (index: number) => Value;
  readonly out: Value;
  readonly d: Value;
  readonly all: readonly Adjoint[];
}) => readonly Adjoint[];

const one = scalar(1);

export const RULES: Partial<Record<Op, Rule>> = {
  Add: (s) => [unbroadcast(s.d, s.in(0)), unbroadcast(s.d, s.in(1))],
  Subtract: (s) => [unbroadcast(s.d, s.in(0)), unbroadcast(negate(s.d), s.in(1))],
  Multiply: (s) => [unbroadcast(multiply(s.d, s.in(1)), s.in(0)), unbroadcast(multiply(s.d, s.in(0)), s.in(1))],
  Divide: (s) => [
    unbroadcast(divide(s.d, s.in(1)), s.in(0)),
    unbroadcast(negate(divide(multiply(s.d, s.out), s.in(1))), s.in(1)),
  ],
  Negate: (s) => [negate(s.d)],
  Exp: (s) => [multiply(s.d, s.out)],
  Sigmoid: (s) => [multiply(s.d, multiply(s.out, subtract(one, s.out)))],
  // y = x·σ, so σ + x·σ·(1 − σ) = σ·(1 + x − y).
  Silu: (s) => [multiply(s.d, multiply(sigmoid(s.in(0)), add(subtract(s.in(0), s.out), one)))],
  Minimum: (s) => {
    const second = less(s.in(1), s.in(0));
    return [unbroadcast(multiply(s.d, subtract(one, second)), s.in(0)), unbroadcast(multiply(s.d, second), s.in(1))];
  },
  Maximum: (s) => {
    const second = less(s.in(0), s.in(1));
    return [unbroadcast(multiply(s.d, subtract(one, second)), s.in(0)), unbroadcast(multiply(s.d, second), s.in(1))];
  },
  Softplus: (s) => [multiply(s.d, sigmoid(s.in(0)))],
  Clip: ({ node: { attributes }, d, in: x }) => [
    multiply(d, multiply(less(scalar(attributes.low as number), x(0)), less(x(0), scalar(attributes.high as number)))),
  ],
  Less: () => [null, null],
  MatMul: (s) => {
    const { transA = false, transB = false, alpha = 1 } = s.node.attributes;
    const [a, b, d] = [s.in(0), s.in(1), s.d];
    return [
      transA ? matmul(b, d, { transA: transB, transB: true, alpha }) : matmul(d, b, { transB: !transB, alpha }),
      transB ? matmul(d, a, { transA: true, transB: transA, alpha }) : matmul(a, d, { transA: !transA, alpha }),
      ...(s.node.inputs.length > 2 ? [d] : []),
    ];
  },
  Reshape: (s) => [reshape(s.d, s.in(0).shape)],
  Transpose: (s) => {
    const inverse: number[] = [];
    for (const [to, from] of (s.node.attributes.perm as readonly number[]).entries()) inverse[from] = to;
    return [transpose(s.d, inverse)];
  },
  Concat: (s) => {
    const axis = s.node.attributes.axis as number;
    return split(
      s.d,
      s.node.inputs.map((v) => v.shape[axis] as Dim),
      axis,
    );
  },
  Split: (s) => [
    concat(
      s.node.outputs.map((v, i) => s.all[i] ?? zeros(v.shape)),
      s.node.attributes.axis as number,
    ),
  ],
  Expand: (s) => [unbroadcast(s.d, s.in(0))],
  Sum: (s) => {
    const { axes = [] } = s.node.attributes;
    const x = s.in(0).shape;
    const kept = x.map((dim, i): Dim => (axes.includes(i) ? 1 : dim));
    return [expand(reshape(s.d, kept), x)];
  },
  Softmax: (s) => [multiply(s.out, subtract(s.d, sum(multiply(s.d, s.out), [s.out.shape.length - 1], true)))],
  LogSoftmax: (s) => {
    const p = exp(s.out);
    const { node: from } = s.d;
    // What `pick` sends back is one number a row, which is also the row's sum: two passes over [N, V] fewer.
    if (from.op === 'Place' && isZero(from.inputs[2] as Value)) {
      const [values, ids] = from.inputs as [Value, Value];
      return [place(values, ids, multiply(p, negate(values)))];
    }
    return [subtract(s.d, multiply(p, sum(s.d, [s.out.shape.length - 1], true)))];
  },
  // With p = softmax(x·Wᵀ) and t the target: d logp = W[t] − p·W for x. Scaling rows of [K, d] spares a pass over [K, V].
  TokenLogprobs: (s) => {
    const [x, weight, target] = [s.in(0), s.in(1), s.in(2)];
    const all = s.node.outputs[1] as Value;
    const p = exp(all);
    const [direct, rest] = [s.all[0] ?? null, s.all[1] ?? null];
    const toX: Value[] = [];
    const toWeight: Value[] = [];
    if (direct !== null) {
      const down = negate(direct);
      const token = sentByToken(x, weight, target, direct);
      toX.push(multiply(matmul(p, weight), down), token.x);
      toWeight.push(matmul(p, multiply(x, down), { transA: true }), token.weight);
    }
    if (rest !== null) {
      const logits = subtract(rest, multiply(p, sum(rest, [1], true)));
      toX.push(matmul(logits, weight));
      toWeight.push(matmul(logits, x, { transA: true }));
    }
    return [toX.reduce(add), toWeight.reduce(add), null];
  },
  ChunkedTokenLogprobs: (s) => {
    const [x, weight, target, ...pieces] = s.node.inputs as [Value, Value, Value, ...Value[]];
    const lse = s.node.outputs[1] as Value;
    const scaled = multiply(x, negate(s.d));
    const parts = sentByToken(x, weight, target, s.d);
    // One piece after the other, so that only one piece's logits exist at a time.
    const mixed: Value[] = [];
    const sent = pieces.map((piece) => {
      const p = exp(subtract(matmul(after(x, mixed.at(-1) ?? s.d), piece, { transB: true }), lse));
      mixed.push(matmul(p, piece));
      return matmul(p, scaled, { transA: true });
    });
    return [add(multiply(mixed.reduce(add), negate(s.d)), parts.x), parts.weight, null, ...sent];
  },
  // P, the node's second output, is kept. Σ_m dP·P of a row is Σ_d dO·O, a sum over a head's width instead of all keys (Dao et al.,
  // arXiv:2205.14135, appendix B.2).
  Attention: (s) => {
    const [q, k, v] = [s.in(0), s.in(1), s.in(2)];
    const p = s.node.outputs[1] as Value;
    const alpha = s.node.attributes.alpha as number;
    const delta = sum(multiply(s.d, s.out), [3], true);
    const scores = multiply(p, subtract(matmul(s.d, v, { transB: true }), delta));
    return [
      matmul(scores, k, { alpha }),
      matmul(scores, q, { transA: true, alpha }),
      matmul(p, s.d, { transA: true }),
      null,
    ];
  },
  GatherRows: (s) => [(s.node.attributes.distinct ? spreadRows : scatterRows)(s.d, s.in(1), s.in(0).shape), null],
  ScatterRows: (s) => [gatherRows(s.d, s.in(1)), null, ...(s.node.inputs.length > 2 ? [s.d] : [])],
  TakeRows: (s) => [takeRows(s.d, s.in(2), s.in(1)), null, null],
  SpreadRows: (s) => [gatherRows(s.d, s.in(1)), null],
  After: (s) => [s.d, null],
  Pick: (s) => [place(s.d, s.in(1), zeros(s.in(0).shape)), null],
  Place: (s) => [pick(s.d, s.in(1)), null, s.d],
  // n = x/rms. dx = (d·w − n·mean(d·w·n))/rms and dw = Σ d·n; z = d·n serves both, its product with w being the mean.
  RmsNorm: (s) => {
    if (s.all[1] != null || s.all[0] == null) throw missing('the second output of RmsNorm');
    const [x, weight] = [s.in(0), s.in(1)];
    const width = weight.shape[0] as number;
    const inverse = s.node.outputs[1] as Value;
    const n = multiply(x, inverse);
    const z = multiply(s.d, n);
    const mean = matmul(z, reshape(weight, [width, 1]), { alpha: 1 / width });
    return [multiply(inverse, subtract(multiply(s.d, weight), multiply(n, mean))), sum(z, [0])];
  },
  // The inverse of a rotation is the rotation by the opposite angle. Tables are positions, never trained.
  Rotary: (s) => [rotary(s.d, s.in(1), negate(s.in(2))), null, null],
};

/**
 * The derivative of a scalar with respect to each of `wanted`.
 * @param options.checkpoints values in the order they are computed, the residual stream between layers say: what lies between two of
 * them is not kept for the gradient but computed again when that is reached (Chen et al. 2016, arXiv:1604.06174), so that memory holds
 * the checkpoints and one stretch. What follows the last is kept.
 * @throws TroupeError `internal` naming the operation that has no rule, or a value the loss does not depend on.
 */
export function gradients(
  loss: Value,
  wanted: readonly Value[],
  { checkpoints = [] }: { readonly checkpoints?: readonly Value[] } = {},
): Value[] {
  if (loss.shape.length !== 0) {
    throw new TroupeError('internal', `a gradient starts from a scalar, got a value of shape [${loss.shape}]`);
  }
  const order = inOrder([loss]);
  const reached = new Set<Node>(wanted.map((v) => v.node));
  for (const n of order) if (n.inputs.some((v) => reached.has(v.node))) reached.add(n);

  const adjoints = new Map<Value, Value>([[loss, one]]);
  const again = recomputation(order, checkpoints, adjoints);
  for (const n of order.toReversed()) {
    const all = n.outputs.map((v) => adjoints.get(v) ?? null);
    if (!reached.has(n) || n.inputs.length === 0 || all.every((d) => d === null)) continue;
    const rule = RULES[n.op];
    if (rule === undefined) throw missing(n.op);
    const d = all[0] ?? zeros((n.outputs[0] as Value).shape);
    const used = again(n);
    const sent = rule({ node: used, in: (i) => used.inputs[i] as Value, out: used.outputs[0] as Value, d, all });
    for (const [i, value] of n.inputs.entries()) {
      const more = sent[i] ?? null;
      if (more === null || !reached.has(value.node)) continue;
      const before = adjoints.get(value);
      adjoints.set(value, before === undefined ? more : add(before, more));
    }
  }
  return wanted.map((value) => {
    const found = adjoints.get(value);
    if (found === undefined) {
      throw new TroupeError('internal', `the loss does not depend on ${value.node.attributes.name ?? value.node.op}`);
    }
    return found;
  });
}

/**
 * Which node a gradient rule reads in place of a node of the forward pass: between two checkpoints a copy of it, computed from the
 * first of them and not before the adjoint of the second is known.
 */
function recomputation(
  order: readonly Node[],
  checkpoints: readonly Value[],
  adjoints: ReadonlyMap<Value, Value>,
): (node: Node) => Node {
  if (checkpoints.length < 2) return (n) => n;
  const index = new Map(checkpoints.map((value, i) => [value, i]));
  // The stretch a node lies in is that of the latest checkpoint it reads; −1 is before the first.
  const stretches = new Map<Node, number>();
  const stretchOf = (v: Value): number => index.get(v) ?? stretches.get(v.node) ?? -1;
  for (const n of order) stretches.set(n, Math.max(-1, ...n.inputs.map(stretchOf)));
  const copies = new Map<Node, Node>();
  const starts = new Map<Value, Value>();
  const startOf = (checkpoint: Value, stretch: number): Value => {
    const known = starts.get(checkpoint);
    if (known !== undefined) return known;
    const next = adjoints.get(checkpoints[stretch + 1] as Value);
    const start = next === undefined ? checkpoint : after(checkpoint, next);
    starts.set(checkpoint, start);
    return start;
  };
  const copyOf = (n: Node): Node => {
    const stretch = stretches.get(n) ?? -1;
    if (stretch < 0 || stretch >= checkpoints.length - 1 || n.inputs.length === 0) return n;
    const known = copies.get(n);
    if (known !== undefined) return known;
    const inputs = n.inputs.map((v) => {
      const at = index.get(v);
      if (at !== undefined) return at === stretch ? startOf(v, stretch) : v;
      return copyOf(v.node).outputs[v.index] as Value;
    });
    const shapes = n.outputs.map((v) => v.shape);
    const copy = node(n.op, inputs, n.attributes, shapes, (n.outputs[0] as Value).type);
    copies.set(n, copy);
    return copy;
  };
  return copyOf;
}

/** What the target's own logit sends back: its row of W, and x at that row. */
function sentByToken(x: Value, weight: Value, target: Value, d: Value): { readonly x: Value; readonly weight: Value } {
  const ids = reshape(target, [target.shape[0] as Dim]);
  return { x: multiply(gatherRows(weight, ids), d), weight: scatterRows(multiply(x, d), ids, weight.shape) };
}

function missing(what: string): TroupeError {
  return new TroupeError('internal', `there is no gradient rule for ${what}; add one to trainer/tensor/gradient.ts`);
}

/** Sums an adjoint over the dimensions its value was repeated along. */
function unbroadcast(d: Value, to: Value): Value {
  if (sameShape(d.shape, to.shape)) return d;
  const lead = d.shape.length - to.shape.length;
  const axes = d.shape.flatMap((dim, i) => (i < lead || (to.shape[i - lead] === 1 && dim !== 1) ? [i] : []));
  const summed = axes.length === 0 ? d : sum(d, axes, true);
  return sameShape(summed.shape, to.shape) ? summed : reshape(summed, to.shape);
}

function zeros(shape: Shape): Value {
  return expand(
    reshape(
      scalar(0),
      shape.map(() => 1),
    ),
    shape,
  );
}

function isZero(value: Value): boolean {
  if (value.node.op === 'Expand' || value.node.op === 'Reshape') return isZero(value.node.inputs[0] as Value);
  return value.node.attributes.data?.every((x) => x === 0) ?? false;
}
