/**
 * Simplifies a graph without changing what it computes: shared subexpressions become one, constants are folded, neutral
 * operations vanish, and sums that a product or a scatter can start from are taken into it.
 */
import { inOrder, type Node, node, sameShape, type Value } from './node.ts';
import { constant, matmul, reshape, scatterRows, transpose } from './operations.ts';

/** The same values, computed by fewer nodes; in the order given. */
export function simplify(outputs: readonly Value[]): Value[] {
  return fuseSums(shareAndFold(outputs));
}

type Replacement = (node: Node, users: ReadonlyMap<Value, number>) => Value | null;

function shareAndFold(outputs: readonly Value[]): Value[] {
  const seen = new Map<string, Node>();
  const ids = new Map<Value, number>();
  const id = (v: Value): number => {
    const known = ids.get(v);
    if (known !== undefined) return known;
    ids.set(v, ids.size);
    return ids.size - 1;
  };
  return rebuild(outputs, fold, (n) => {
    const { data, ...plain } = n.attributes;
    if (data !== undefined && data.length > 64) return n;
    const shape = (n.outputs[0] as Value).shape.join();
    const key = `${n.op} ${n.inputs.map(id)} ${shape} ${JSON.stringify(plain)} ${data === undefined ? '' : data.join()}`;
    const twin = seen.get(key);
    if (twin === undefined) seen.set(key, n);
    return twin ?? n;
  });
}

function fuseSums(outputs: readonly Value[]): Value[] {
  return rebuild(
    outputs,
    (n, users) => {
      if (n.op !== 'Add') return null;
      const [a, b] = n.inputs as [Value, Value];
      if (!sameShape(a.shape, b.shape)) return null;
      return startFrom(a, b, users) ?? startFrom(b, a, users);
    },
    (n) => n,
  );
}

/** `sum + base` as a product or scatter that starts from `base`; only where nobody else reads the product. */
function startFrom(sum: Value, base: Value, users: ReadonlyMap<Value, number>): Value | null {
  const { op, inputs, attributes } = sum.node;
  if (inputs.length !== 2 || users.get(sum) !== 1) return null;
  const [x, y] = inputs as [Value, Value];
  if (op === 'ScatterRows') return scatterRows(x, y, attributes.shape ?? sum.shape, base);
  if (op !== 'MatMul' || sum.shape.length !== 2) return null;
  const { transA = false, transB = false, alpha = 1 } = attributes;
  return matmul(x, y, { transA, transB, alpha }, base);
}

const SCALAR_FUNCTIONS: Partial<Record<Node['op'], (a: number, b: number) => number>> = {
  Add: (a, b) => a + b,
  Subtract: (a, b) => a - b,
  Multiply: (a, b) => a * b,
  Divide: (a, b) => a / b,
  Negate: (a) => -a,
  Exp: (a) => Math.exp(a),
};

const fold: Replacement = (n) => {
  const [a, b] = n.inputs;
  const out = n.outputs[0] as Value;
  if (a === undefined) return null;
  const scalarOf = (v: Value | undefined) => (v?.shape.length === 0 ? v.node.attributes.data?.[0] : undefined);
  const apply = SCALAR_FUNCTIONS[n.op];
  if (apply !== undefined) {
    const [x, y] = [scalarOf(a), scalarOf(b)];
    if (x !== undefined && (b === undefined || y !== undefined)) {
      return constant(Float32Array.of(apply(x, y ?? 0)), []);
    }
    if (n.op === 'Multiply' && x === 1 && b !== undefined) return b;
    if (n.op === 'Multiply' && y === 1) return a;
    if (n.op === 'Add' && x === 0 && b !== undefined) return b;
    if ((n.op === 'Add' || n.op === 'Subtract') && y === 0) return a;
    if (n.op === 'Divide' && y === 1) return a;
    if (n.op === 'Negate' && a.node.op === 'Negate') return a.node.inputs[0] as Value;
    return null;
  }
  if (n.op === 'Reshape') {
    if (sameShape(a.shape, out.shape)) return a;
    if (a.node.op === 'Reshape') {
      const source = a.node.inputs[0] as Value;
      return sameShape(source.shape, out.shape) ? source : reshape(source, out.shape);
    }
  }
  if (n.op === 'Transpose') {
    const perm = n.attributes.perm as readonly number[];
    if (perm.every((from, to) => from === to)) return a;
    if (a.node.op === 'Transpose') {
      const inner = a.node.attributes.perm as readonly number[];
      const both = perm.map((i) => inner[i] as number);
      const source = a.node.inputs[0] as Value;
      return both.every((from, to) => from === to) ? source : transpose(source, both);
    }
  }
  return null;
};

function rebuild(outputs: readonly Value[], replace: Replacement, share: (n: Node) => Node): Value[] {
  const order = inOrder(outputs);
  const users = new Map<Value, number>();
  for (const v of [...outputs, ...order.flatMap((n) => n.inputs)]) users.set(v, (users.get(v) ?? 0) + 1);
  const now = new Map<Value, Value>();
  const current = (v: Value): Value => now.get(v) ?? v;
  for (const old of order) {
    const inputs = old.inputs.map(current);
    const same = inputs.every((v, i) => v === old.inputs[i]);
    const shapes = old.outputs.map((v) => v.shape);
    const type = (old.outputs[0] as Value).type;
    const fresh = same ? old : node(old.op, inputs, old.attributes, shapes, type);
    // Counts are of the old values; a rewritten operand keeps the count of what it stands for.
    for (const [i, v] of inputs.entries()) users.set(v, users.get(old.inputs[i] as Value) ?? 1);
    const other = replace(fresh, users);
    if (other !== null) {
      now.set(old.outputs[0] as Value, other);
      continue;
    }
    const shared = share(fresh);
    for (const [i, v] of old.outputs.entries()) now.set(v, shared.outputs[i] as Value);
  }
  return outputs.map(current);
}
