/**
 * From our operations to those of ONNX (opset 18, and com.microsoft where one kernel does the work of several).
 * A symbolic dimension is read at run time from an input that carries it, so no shape has to be fed.
 */
import { TroupeError } from '../../errors.ts';
import {
  type Attributes,
  type Dim,
  factors,
  inOrder,
  type Node,
  type Op,
  type Shape,
  terms,
  type Value,
} from './node.ts';

export type OnnxAttribute =
  | { readonly int: number }
  | { readonly float: number }
  | { readonly ints: readonly number[] }
  | { readonly text: string };

export type OnnxNode = {
  readonly op: string;
  readonly domain: string;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  readonly attributes: Readonly<Record<string, OnnxAttribute>>;
};

export type OnnxTensor = {
  readonly name: string;
  readonly dims: readonly number[];
  readonly data: Float32Array | BigInt64Array;
};

export type OnnxPort = {
  readonly name: string;
  /** Values of our own graphs are never int64. */
  readonly type: 'float32' | 'int32' | 'int64';
  readonly shape: Shape;
};

export type OnnxGraph = {
  readonly nodes: readonly OnnxNode[];
  readonly constants: readonly OnnxTensor[];
  readonly inputs: readonly OnnxPort[];
  readonly outputs: readonly OnnxPort[];
};

type Emit = (op: string, inputs: readonly string[], attributes?: OnnxNode['attributes'], domain?: string) => string;
type Step = {
  readonly node: Node;
  readonly attributes: Attributes;
  /** Names of the inputs. */
  readonly in: readonly string[];
  /** Names the outputs must get. */
  readonly out: readonly string[];
  /** Emits a node whose result gets a name of its own. */
  readonly via: Emit;
  readonly emit: (
    op: string,
    inputs: readonly string[],
    outputs: readonly string[],
    attributes?: OnnxNode['attributes'],
  ) => void;
  /** Emits the node that gives this operation's outputs. */
  readonly into: (op: string, inputs: readonly string[], attributes?: OnnxNode['attributes'], domain?: string) => void;
  readonly int64: (values: readonly number[]) => string;
  readonly float: (value: number) => string;
  readonly dims: (shape: Shape) => string;
  readonly target: (from: Shape, to: Shape) => string;
};

const MICROSOFT = 'com.microsoft';
const simple =
  (op: string, attributes: OnnxNode['attributes'] = {}, domain = '') =>
  (s: Step): void =>
    s.into(op, s.in, attributes, domain);
const flag = (on: boolean | undefined) => ({ int: on === true ? 1 : 0 });

/** One entry an operation. */
const LOWERINGS: Record<Exclude<Op, 'Input' | 'Constant'>, (s: Step) => void> = {
  Add: simple('Add'),
  Subtract: simple('Sub'),
  Multiply: simple('Mul'),
  Divide: simple('Div'),
  Negate: simple('Neg'),
  Exp: simple('Exp'),
  Sigmoid: simple('Sigmoid'),
  Silu: simple('QuickGelu', { alpha: { float: 1 } }, MICROSOFT),
  Minimum: simple('Min'),
  Maximum: simple('Max'),
  Softplus: simple('Softplus'),
  Largest: (s) => s.into('ReduceMax', [s.in[0] as string, s.int64([-1])], { keepdims: flag(true) }),
  Softmax: simple('Softmax', { axis: { int: -1 } }),
  LogSoftmax: simple('LogSoftmax', { axis: { int: -1 } }),
  GatherRows: simple('Gather', { axis: { int: 0 } }),
  Pick: simple('GatherElements', { axis: { int: 1 } }),
  Clip: (s) => {
    s.into('Clip', [...s.in, s.float(s.attributes.low as number), s.float(s.attributes.high as number)]);
  },
  // The CPU provider has no Where over booleans, so a comparison becomes 0 or 1 at once.
  Less: (s) => s.into('Cast', [s.via('Less', s.in)], { to: { int: 1 } }),
  MatMul: (s) => {
    const { transA, transB, alpha = 1 } = s.attributes;
    if ((s.node.inputs[0] as Value).shape.length === 2) {
      s.into('Gemm', s.in, { transA: flag(transA), transB: flag(transB), alpha: { float: alpha } });
      return;
    }
    const attributes = { transA: flag(transA), transB: flag(transB), alpha: { float: alpha } };
    s.into('FusedMatMul', s.in, attributes, MICROSOFT);
  },
  Reshape: (s) => {
    s.into('Reshape', [s.in[0] as string, s.target((s.node.inputs[0] as Value).shape, s.attributes.shape as Shape)]);
  },
  Transpose: (s) => s.into('Transpose', s.in, { perm: { ints: s.attributes.perm as readonly number[] } }),
  Concat: (s) => s.into('Concat', s.in, { axis: { int: s.attributes.axis as number } }),
  Split: (s) => {
    const sizes = s.dims(s.attributes.sizes as Shape);
    s.into('Split', [s.in[0] as string, sizes], { axis: { int: s.attributes.axis as number } });
  },
  Expand: (s) => s.into('Expand', [s.in[0] as string, s.dims(s.attributes.shape as Shape)]),
  Sum: (s) => {
    const axes = s.int64(s.attributes.axes as readonly number[]);
    s.into('ReduceSum', [s.in[0] as string, axes], { keepdims: flag(s.attributes.keepDims) });
  },
  ScatterRows: (s) => {
    const [rows, ids, base] = s.in as [string, string, string | undefined];
    const rows64 = s.via('Cast', [ids], { to: { int: 7 } });
    const at = s.via('Unsqueeze', [rows64, s.int64([1])]);
    const onto = base ?? s.via('ConstantOfShape', [s.dims(s.attributes.shape as Shape)]);
    s.into('ScatterND', [onto, at, rows], { reduction: { text: 'add' } });
  },
  TakeRows: (s) => s.into('Gather', s.in.slice(0, 2), { axis: { int: 0 } }),
  SpreadRows: (s) => {
    const [rows, ids] = s.in as [string, string];
    const at = s.via('Unsqueeze', [s.via('Cast', [ids], { to: { int: 7 } }), s.int64([1])]);
    s.into('ScatterND', [s.via('ConstantOfShape', [s.dims(s.attributes.shape as Shape)]), at, rows]);
  },
  // A reshape to its own shape, plus zero times a size of the other: the runtime cannot know that before it has the other.
  After: (s) => {
    const [x, other] = s.in as [string, string];
    const size = s.via('Shape', [other], { start: { int: 0 }, end: { int: 1 } });
    s.into('Reshape', [x, s.via('Add', [s.via('Shape', [x]), s.via('Mul', [size, s.int64([0])])])]);
  },
  Place: (s) => {
    const [values, ids, base] = s.in as [string, string, string];
    s.into('ScatterElements', [base, ids, values], { axis: { int: 1 }, reduction: { text: 'add' } });
  },
  // Its second output is 1/rms, which the gradient needs.
  RmsNorm: (s) => {
    const epsilon = { float: s.attributes.epsilon as number };
    s.into('SimplifiedLayerNormalization', s.in, { axis: { int: -1 }, epsilon, stash_type: { int: 1 } });
  },
  TokenLogprobs: (s) => {
    const [x, weight, target] = s.in as [string, string, string];
    const [picked, all] = s.out as [string, string];
    s.emit('LogSoftmax', [s.via('Gemm', [x, weight], { transB: flag(true) })], [all], { axis: { int: -1 } });
    s.emit('GatherElements', [all, target], [picked], { axis: { int: 1 } });
  },
  // log Σ exp of a piece is its first logit minus the logarithm of that one's share, which takes the kernel of LogSoftmax.
  ChunkedTokenLogprobs: (s) => {
    const [x, weight, target, ...pieces] = s.in as [string, string, string, ...string[]];
    const [picked, lse] = s.out as [string, string];
    const first = { starts: s.int64([0]), ends: s.int64([1]), axes: s.int64([1]) };
    const column = (from: string) => s.via('Slice', [from, first.starts, first.ends, first.axes]);
    const each = pieces.map((piece) => {
      const logits = s.via('Gemm', [x, piece], { transB: flag(true) });
      return s.via('Sub', [column(logits), column(s.via('LogSoftmax', [logits], { axis: { int: -1 } }))]);
    });
    const joined = s.via('Concat', each, { axis: { int: 1 } });
    s.emit('ReduceLogSumExp', [joined, s.int64([1])], [lse], { keepdims: flag(true) });
    const rows = s.via('Gather', [weight, s.via('Reshape', [target, s.int64([-1])])], { axis: { int: 0 } });
    const logit = s.via('ReduceSum', [s.via('Mul', [x, rows]), s.int64([1])], { keepdims: flag(true) });
    s.emit('Sub', [logit, lse], [picked]);
  },
  Attention: (s) => {
    const [q, k, v, mask] = s.in as [string, string, string, string];
    const [mixed, p] = s.out as [string, string];
    const alpha = { float: s.attributes.alpha as number };
    const products = s.via('FusedMatMul', [q, k], { transB: flag(true), alpha }, MICROSOFT);
    s.emit('Softmax', [s.via('Add', [products, mask])], [p], { axis: { int: -1 } });
    s.emit('MatMul', [p, v], [mixed]);
  },
  Rotary: (s) => {
    const [x, cos, sin] = s.in as [string, string, string];
    s.into('RotaryEmbedding', [x, s.int64([0]), cos, sin], { interleaved: { int: 0 } }, MICROSOFT);
  },
};

/** The ONNX graph of named outputs. @throws TroupeError `internal` when a dimension is carried by no input. */
export function lower(outputs: Readonly<Record<string, Value>>): OnnxGraph {
  const nodes: OnnxNode[] = [];
  const constants = new Map<string, OnnxTensor>();
  const inputs: OnnxPort[] = [];
  const names = new Map<Value, string>();
  const carriers = new Map<string, readonly [string, number]>();
  let count = 0;
  const fresh = (kind: string) => `${kind}_${count++}`;

  const emit = (op: string, ins: readonly string[], outs: readonly string[], attributes = {}, domain = ''): void => {
    nodes.push({ op, domain, inputs: ins, outputs: outs, attributes });
  };
  const via: Emit = (op, ins, attributes, domain) => {
    const out = fresh(op);
    emit(op, ins, [out], attributes, domain);
    return out;
  };
  const keep = (key: string, dims: readonly number[], data: OnnxTensor['data']): string => {
    const known = constants.get(key);
    if (known !== undefined) return known.name;
    const name = fresh('const');
    constants.set(key, { name, dims, data });
    return name;
  };
  const int64 = (values: readonly number[]) =>
    keep(
      `i${values}`,
      [values.length],
      BigInt64Array.from(values, (v) => BigInt(v)),
    );
  const float = (value: number) => keep(`f${value}`, [], Float32Array.of(value));

  const { dims, target } = dimensions(carriers, int64, via);
  const order = inOrder(Object.values(outputs));
  for (const n of order) {
    if (n.op !== 'Input') continue;
    const value = n.outputs[0] as Value;
    const name = n.attributes.name as string;
    names.set(value, name);
    inputs.push({ name, type: value.type, shape: value.shape });
    for (const [i, dim] of value.shape.entries()) {
      if (typeof dim === 'string' && !carriers.has(dim)) carriers.set(dim, [name, i]);
    }
  }
  for (const n of order) {
    if (n.op === 'Input') continue;
    if (n.op === 'Constant') {
      const value = n.outputs[0] as Value;
      const data = n.attributes.data as Float32Array;
      names.set(value, keep(`c${fresh('key')}`, value.shape as readonly number[], data));
      continue;
    }
    const out = n.outputs.map((v) => {
      const name = fresh(n.op);
      names.set(v, name);
      return name;
    });
    LOWERINGS[n.op]({
      node: n,
      attributes: n.attributes,
      in: n.inputs.map((v) => names.get(v) as string),
      out,
      via,
      emit,
      into: (op, ins, attributes, domain) => emit(op, ins, out, attributes, domain),
      int64,
      float,
      dims,
      target,
    });
  }
  // An output under its own name: one value may be asked for twice, or be an input itself.
  const ports = Object.entries(outputs).map(([name, value]): OnnxPort => {
    emit('Identity', [names.get(value) as string], [name]);
    return { name, type: value.type, shape: value.shape };
  });
  return { nodes, constants: [...constants.values()], inputs, outputs: ports };
}

/** Writes dimensions as tensors. @param carriers the input that carries each symbolic dimension, and its place there */
function dimensions(
  carriers: ReadonlyMap<string, readonly [string, number]>,
  int64: Step['int64'],
  via: Emit,
): Pick<Step, 'dims' | 'target'> {
  const dimNames = new Map<string, string>();
  /** The name of a one-element int64 tensor that holds a dimension. */
  const dimension = (dim: Dim): string => {
    if (typeof dim === 'number') return int64([dim]);
    const known = dimNames.get(dim);
    if (known !== undefined) return known;
    const name = symbolic(dim);
    dimNames.set(dim, name);
    return name;
  };
  const symbolic = (dim: string): string => {
    const parts = factors(dim);
    const reading = (text: string): Dim => (/^\d+$/.test(text) ? Number(text) : text);
    if (parts.length > 1) return parts.map((p) => dimension(reading(p))).reduce((a, b) => via('Mul', [a, b]));
    if (dim.startsWith('(')) {
      return terms(dim)
        .map((t) => dimension(reading(t)))
        .reduce((a, b) => via('Add', [a, b]));
    }
    const carrier = carriers.get(dim);
    if (carrier === undefined) throw new TroupeError('internal', `no input has the dimension ${dim}`);
    return via('Shape', [carrier[0]], { start: { int: carrier[1] }, end: { int: carrier[1] + 1 } });
  };
  const dims = (shape: Shape): string =>
    shape.every((d): d is number => typeof d === 'number')
      ? int64(shape)
      : via('Concat', shape.map(dimension), { axis: { int: 0 } });

  /** A reshape target: 0 copies the dimension at the same place and one -1 is inferred, so most targets are constants. */
  const target = (from: Shape, to: Shape): string => {
    const plain = to.map((dim, i) => (typeof dim === 'number' ? dim : from[i] === dim ? 0 : dim));
    const unknown = plain.filter((dim) => typeof dim === 'string');
    if (unknown.length <= 1) return int64(plain.map((dim) => (typeof dim === 'string' ? -1 : dim)));
    return dims(to);
  };
  return { dims, target };
}
