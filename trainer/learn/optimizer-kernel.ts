/**
 * The optimizer's arithmetic over millions of numbers, four at a time: WebAssembly, assembled here from its instructions so that nothing
 * has to be built or shipped beside the sources. Measured: an update of AdamW takes 0.7 ns a parameter, the same loop in JavaScript 5 to 9.
 * A kernel reads five columns of one memory, each as long as all parameters together; its instruction set is WebAssembly SIMD (every
 * supported Node has it) and IEEE single precision, so equal inputs give equal bits on every machine.
 */

/** Columns of the memory, in this order. */
export const COLUMNS = ['weights', 'gradients', 'm', 'v', 'more'] as const;
export type KernelColumn = (typeof COLUMNS)[number];

export type Kernel = {
  /** One column after the other, each `bytes` long, all zero at first. Pages that nobody writes take no memory. */
  readonly memory: ArrayBuffer;
  /** AdamW on bytes [from, to) of each column: weights, m and v are written. `rate` and `correction` hold the bias corrections. */
  readonly adamw: (from: number, to: number, by: AdamwNumbers) => void;
  /** Σ gradients² over bytes [from, to), summed in double precision. */
  readonly squares: (from: number, to: number) => number;
  /** gradients += more over bytes [from, to). */
  readonly accumulate: (from: number, to: number) => void;
};

type AdamwNumbers = {
  readonly scale: number;
  readonly beta1: number;
  readonly beta2: number;
  readonly rate: number;
  readonly correction: number;
  readonly epsilon: number;
  readonly decay: number;
};

/** What this file uses of the WebAssembly interface, which Node's own types leave out. */
type Assembly = {
  readonly Module: new (bytes: Uint8Array<ArrayBuffer>) => object;
  readonly Instance: new (
    module: object,
  ) => {
    readonly exports: {
      readonly memory: { readonly buffer: ArrayBuffer };
      readonly adamw: (...numbers: number[]) => void;
      readonly squares: (from: number, to: number) => number;
      readonly accumulate: (from: number, to: number) => void;
    };
  };
};

/** Bytes of a column at most: five of them must fit into the 4 GiB that a memory can have. */
export const MAX_COLUMN_BYTES = 800 * 2 ** 20;
const PAGE = 65536;

/** A kernel over columns of `bytes` bytes, a multiple of 16. */
export function makeKernel(bytes: number): Kernel {
  const { Module, Instance } = (globalThis as unknown as { readonly WebAssembly: Assembly }).WebAssembly;
  const { exports } = new Instance(new Module(assemble(bytes)));
  return {
    memory: exports.memory.buffer,
    adamw: (from, to, { scale, beta1, beta2, rate, correction, epsilon, decay }) =>
      exports.adamw(from, to, scale, beta1, 1 - beta1, beta2, 1 - beta2, rate, correction, epsilon, decay),
    squares: exports.squares,
    accumulate: exports.accumulate,
  };
}

type Code = readonly number[];

const unsigned = (value: number): number[] => {
  const bytes: number[] = [];
  let rest = value;
  do {
    bytes.push((rest % 128) | (rest >= 128 ? 128 : 0));
    rest = Math.floor(rest / 128);
  } while (rest > 0);
  return bytes;
};
const vector = (items: readonly Code[]): number[] => [...unsigned(items.length), ...items.flat()];
const text = (name: string): number[] => vector([...new TextEncoder().encode(name)].map((byte) => [byte]));
const section = (id: number, body: Code): number[] => [id, ...unsigned(body.length), ...body];

/** Value types. */
const [I32, F32, F64, V128] = [0x7f, 0x7d, 0x7c, 0x7b];

const get = (local: number): Code => [0x20, ...unsigned(local)];
const set = (local: number): Code => [0x21, ...unsigned(local)];
const simd = (op: number, ...rest: number[]): Code => [0xfd, ...unsigned(op), ...rest];
/** 16 bytes at the address on the stack plus `offset`, aligned to 16. */
const load = (offset: number): Code => simd(0, 4, ...unsigned(offset));
const store = (offset: number): Code => simd(11, 4, ...unsigned(offset));
const splat = simd(19);
const add = simd(228);
const subtract = simd(229);
const multiply = simd(230);
const divide = simd(231);
const root = simd(227);
/** The two lower of four single numbers as two doubles; the two upper ones come down by `upper` first. */
const promote = simd(95);
const upper = simd(13, 8, 9, 10, 11, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15);
const addDoubles = simd(240);
const multiplyDoubles = simd(242);
const lane = (index: number): Code => simd(33, index);
const END = 0x0b;

/** A function over bytes [local 0, local 1): `before` once, then `each` with local 0 moving on by 16, then `after`. */
function overBytes(
  locals: readonly (readonly [count: number, type: number])[],
  before: Code,
  each: Code,
  after: Code,
): Code {
  const code = [
    ...vector(locals.map(([count, type]) => [...unsigned(count), type])),
    ...before,
    ...[0x03, 0x40],
    ...each,
    // local 0 += 16; on while local 0 < local 1.
    ...[...get(0), 0x41, 16, 0x6a, ...set(0), ...get(0), ...get(1), 0x49, 0x0d, 0, END],
    ...after,
    END,
  ];
  return [...unsigned(code.length), ...code];
}

function assemble(bytes: number): Uint8Array<ArrayBuffer> {
  const at = Object.fromEntries(COLUMNS.map((column, i) => [column, i * bytes])) as Record<KernelColumn, number>;
  const here = get(0);
  // Parameters 2 to 10 are the numbers, locals 11 to 19 the same in all four lanes, 20 to 22 gradient, m and v.
  const spread = Array.from({ length: 9 }, (_, i) => [...get(2 + i), ...splat, ...set(11 + i)]).flat();
  const [scale, beta1, rest1, beta2, rest2, rate, correction, epsilon, decay] = Array.from({ length: 9 }, (_, i) =>
    get(11 + i),
  ) as [Code, Code, Code, Code, Code, Code, Code, Code, Code];
  const [g, m, v] = [20, 21, 22];
  const adamw = overBytes(
    [[12, V128]],
    spread,
    [
      ...[...here, ...load(at.gradients), ...scale, ...multiply, ...set(g)],
      ...[...here, ...load(at.m), ...beta1, ...multiply, ...get(g), ...rest1, ...multiply, ...add, ...set(m)],
      ...[...here, ...load(at.v), ...beta2, ...multiply],
      ...[...get(g), ...get(g), ...multiply, ...rest2, ...multiply, ...add, ...set(v)],
      ...[...here, ...get(m), ...store(at.m), ...here, ...get(v), ...store(at.v)],
      // w·decay − rate·m / (√(v·correction) + ε)
      ...[...here, ...here, ...load(at.weights), ...decay, ...multiply, ...rate, ...get(m), ...multiply],
      ...[...get(v), ...correction, ...multiply, ...root, ...epsilon, ...add, ...divide, ...subtract],
      ...store(at.weights),
    ],
    [],
  );
  // Local 2 sums doubles, local 3 holds four single numbers.
  const squared = (half: Code): Code => [
    ...get(3),
    ...half,
    ...promote,
    ...get(3),
    ...half,
    ...promote,
    ...multiplyDoubles,
  ];
  const squares = overBytes(
    [[2, V128]],
    [],
    [
      ...[...here, ...load(at.gradients), ...set(3)],
      ...[...get(2), ...squared([]), ...addDoubles, ...squared([...get(3), ...upper]), ...addDoubles, ...set(2)],
    ],
    [...get(2), ...lane(0), ...get(2), ...lane(1), 0xa0],
  );
  const accumulate = overBytes(
    [],
    [],
    [...here, ...here, ...load(at.gradients), ...here, ...load(at.more), ...add, ...store(at.gradients)],
    [],
  );
  const pair = [[I32], [I32]];
  const types = [
    [0x60, ...vector([...pair, ...Array.from({ length: 9 }, () => [F32])]), ...vector([])],
    [0x60, ...vector(pair), ...vector([[F64]])],
    [0x60, ...vector(pair), ...vector([])],
  ];
  const exported = ['adamw', 'squares', 'accumulate'].map((name, i) => [...text(name), 0, i]);
  return Uint8Array.from([
    ...[0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    ...section(1, vector(types)),
    ...section(3, vector([[0], [1], [2]])),
    ...section(5, vector([[0, ...unsigned(Math.ceil((COLUMNS.length * bytes) / PAGE))]])),
    ...section(7, vector([[...text('memory'), 2, 0], ...exported])),
    ...section(10, vector([adamw, squares, accumulate])),
  ]);
}
