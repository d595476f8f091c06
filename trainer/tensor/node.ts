/**
 * What a computation is before it runs: nodes with named operations, values with shapes.
 * Knows no model and no file format. A dimension is a number or a symbol ('Q', 'n*S', '(1+S)'), so one graph serves any batch.
 */
import { TroupeError } from '../../errors.ts';

export type Dim = number | string;
export type Shape = readonly Dim[];
export type ElementType = 'float32' | 'int32';

export type Op =
  | 'Input'
  | 'Constant'
  | 'Add'
  | 'Subtract'
  | 'Multiply'
  | 'Divide'
  | 'Negate'
  | 'Exp'
  | 'Silu'
  | 'Sigmoid'
  | 'Minimum'
  | 'Maximum'
  | 'Softplus'
  | 'Largest'
  | 'Clip'
  | 'Less'
  | 'MatMul'
  | 'Reshape'
  | 'Transpose'
  | 'Concat'
  | 'Split'
  | 'Expand'
  | 'Sum'
  | 'Softmax'
  | 'Attention'
  | 'LogSoftmax'
  | 'TokenLogprobs'
  | 'ChunkedTokenLogprobs'
  | 'GatherRows'
  | 'ScatterRows'
  | 'TakeRows'
  | 'SpreadRows'
  | 'After'
  | 'Pick'
  | 'Place'
  | 'RmsNorm'
  | 'Rotary';

/** The plain values an operation needs beside its inputs; each builder in operations.ts defines which. */
export type Attributes = {
  readonly name?: string;
  readonly data?: Float32Array;
  readonly shape?: Shape;
  readonly perm?: readonly number[];
  readonly axes?: readonly number[];
  readonly axis?: number;
  readonly sizes?: Shape;
  readonly keepDims?: boolean;
  readonly transA?: boolean;
  readonly transB?: boolean;
  readonly alpha?: number;
  readonly epsilon?: number;
  readonly low?: number;
  readonly high?: number;
  /** Row numbers that are all different, so that a gradient can be written instead of added. */
  readonly distinct?: boolean;
};

export type Node = {
  readonly op: Op;
  readonly inputs: readonly Value[];
  readonly attributes: Attributes;
  readonly outputs: readonly Value[];
};

/** One output of a node. Identity is the object: two values are the same exactly when they are the same object. */
export type Value = {
  readonly node: Node;
  readonly index: number;
  readonly shape: Shape;
  readonly type: ElementType;
};

/** A node with one output for each shape given. */
export function node(
  op: Op,
  inputs: readonly Value[],
  attributes: Attributes,
  shapes: readonly Shape[],
  type: ElementType = 'float32',
): Node {
  const outputs: Value[] = [];
  const made: Node = { op, inputs, attributes, outputs };
  for (const [index, shape] of shapes.entries()) outputs.push({ node: made, index, shape, type });
  return made;
}

/** Product of dimensions in one canonical spelling, so that equal products are equal strings. */
export function times(...dims: readonly Dim[]): Dim {
  let factor = 1;
  const symbols: string[] = [];
  for (const dim of dims) {
    if (typeof dim === 'number') {
      factor *= dim;
      continue;
    }
    for (const part of factors(dim)) {
      if (/^\d+$/.test(part)) factor *= Number(part);
      else symbols.push(part);
    }
  }
  if (symbols.length === 0) return factor;
  symbols.sort();
  return factor === 1 ? symbols.join('*') : [factor, ...symbols].join('*');
}

/** Sum of dimensions; numbers fold, symbols stand in the order given. */
export function plus(...dims: readonly Dim[]): Dim {
  const constant = dims.reduce<number>((total, dim) => (typeof dim === 'number' ? total + dim : total), 0);
  const symbols = dims.filter((dim): dim is string => typeof dim === 'string');
  if (symbols.length === 0) return constant;
  const parts = constant === 0 ? symbols : [String(constant), ...symbols];
  return parts.length === 1 ? (parts[0] as string) : `(${parts.join('+')})`;
}

/** The factors of a symbolic product; a sum in parentheses is one factor. */
export function factors(dim: string): string[] {
  return dim.match(/\([^)]*\)|[^*]+/g) ?? [];
}

/** The terms of a symbolic sum written by `plus`. */
export function terms(dim: string): string[] {
  return dim.slice(1, -1).split('+');
}

/** Shape of an element-wise result: equal dimensions, or one of them 1. */
export function broadcast(a: Shape, b: Shape): Shape {
  const rank = Math.max(a.length, b.length);
  return Array.from({ length: rank }, (_, i) => {
    const x = a[a.length - rank + i] ?? 1;
    const y = b[b.length - rank + i] ?? 1;
    if (x !== y && x !== 1 && y !== 1) {
      throw new TroupeError('internal', `element-wise shapes must match: [${a}] and [${b}] differ at dimension ${i}`);
    }
    return x === 1 ? y : x;
  });
}

export function sameShape(a: Shape, b: Shape): boolean {
  return a.length === b.length && a.every((dim, i) => dim === b[i]);
}

/** Nodes that `values` need, inputs before users. */
export function inOrder(values: readonly Value[]): Node[] {
  const order: Node[] = [];
  const seen = new Set<Node>();
  // An explicit stack: a deep model would overflow a recursive walk.
  const stack: { readonly node: Node; next: number }[] = [];
  const visit = (start: Node) => {
    if (seen.has(start)) return;
    seen.add(start);
    stack.push({ node: start, next: 0 });
    while (stack.length > 0) {
      const top = stack[stack.length - 1] as { readonly node: Node; next: number };
      const input = top.node.inputs[top.next++];
      if (input === undefined) {
        order.push(top.node);
        stack.pop();
      } else if (!seen.has(input.node)) {
        seen.add(input.node);
        stack.push({ node: input.node, next: 0 });
      }
    }
  };
  for (const value of values) visit(value.node);
  return order;
}
