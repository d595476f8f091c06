/**
 * Reverse-mode differentiation as a table: one rule an operation, from a node and the adjoints of its outputs to the
 * adjoints of its inputs. An operation without a rule fails by name. Each rule is held to finite differences by a test.
 */
import { TroupeError } from '../../errors.ts';
import { type Dim, inOrder, type Node, type Op, type Shape, sameShape, type Value } from './node.ts';
import {
  add,
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
  subtract,
  sum,
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
  GatherRows: (s) => [scatterRows(s.d, s.in(1), s.in(0).shape), null],
  ScatterRows: (s) => [gatherRows(s.d, s.in(1)), null, ...(s.node.inputs.length > 2 ? [s.d] : [])],
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
 * @throws TroupeError `internal` naming the operation that has no rule, or a value the loss does not depend on.
 */
export function gradients(loss: Value, wanted: readonly Value[]): Value[] {
  if (loss.shape.length !== 0) {
    throw new TroupeError('internal', `a gradient starts from a scalar, got a value of shape [${loss.shape}]`);
  }
  const order = inOrder([loss]);
  const reached = new Set<Node>(wanted.map((v) => v.node));
  for (const n of order) if (n.inputs.some((v) => reached.has(v.node))) reached.add(n);

  const adjoints = new Map<Value, Value>([[loss, one]]);
  for (const n of order.toReversed()) {
    const all = n.outputs.map((v) => adjoints.get(v) ?? null);
    if (!reached.has(n) || n.inputs.length === 0 || all.every((d) => d === null)) continue;
    const rule = RULES[n.op];
    if (rule === undefined) throw missing(n.op);
    const d = all[0] ?? zeros((n.outputs[0] as Value).shape);
    const sent = rule({ node: n, in: (i) => n.inputs[i] as Value, out: n.outputs[0] as Value, d, all });
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

function missing(what: string): TroupeError {
  return new TroupeError('internal', `there is no gradient rule for ${what}; add one to trainer/graph/gradient.ts`);
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
