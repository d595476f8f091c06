/**
 * 16-bit floats as files hold them. Widening is exact; narrowing rounds to the nearest, ties to even, as IEEE 754 asks
 * and as PyTorch's `.to(torch.float16)` and `.to(torch.bfloat16)` do.
 */

export type HalfType = 'F16' | 'BF16';

/** Values of 16-bit floats as 32-bit ones, bit patterns of NaN included. `into` has the same length. */
export function widen(type: HalfType, halves: Uint16Array, into: Float32Array): void {
  const bits = new Uint32Array(into.buffer, into.byteOffset, into.length);
  if (type === 'BF16') for (let i = 0; i < halves.length; i++) bits[i] = halves[i]! << 16;
  else for (let i = 0; i < halves.length; i++) bits[i] = halfToFloatBits(halves[i]!);
}

/**
 * The nearest 16-bit floats. A NaN stays a quiet NaN of its sign. What is finite and too large becomes an infinity:
 * `overflowing` finds it first.
 */
export function narrow(type: HalfType, floats: Float32Array): Uint16Array {
  const bits = new Uint32Array(floats.buffer, floats.byteOffset, floats.length);
  const halves = new Uint16Array(bits.length);
  if (type === 'BF16') for (let i = 0; i < bits.length; i++) halves[i] = floatToBrain(bits[i]!);
  else for (let i = 0; i < bits.length; i++) halves[i] = floatToHalf(bits[i]!);
  return halves;
}

/** The least magnitude that rounds to an infinity: half a unit above the largest value of the type. */
const OVERFLOW = { F16: 65520, BF16: 1.99609375 * 2 ** 127 } as const;

/** Index of the first finite value that the type cannot hold, or -1. */
export function overflowing(type: HalfType, floats: Float32Array): number {
  const limit = OVERFLOW[type];
  for (let i = 0; i < floats.length; i++) {
    const size = Math.abs(floats[i]!);
    if (size >= limit && size < Infinity) return i;
  }
  return -1;
}

function halfToFloatBits(half: number): number {
  const sign = (half & 0x8000) << 16;
  const exponent = (half >> 10) & 0x1f;
  const fraction = half & 0x3ff;
  if (exponent === 0x1f) return sign | 0x7f800000 | (fraction << 13);
  if (exponent > 0) return sign | ((exponent + 112) << 23) | (fraction << 13);
  if (fraction === 0) return sign;
  const shift = Math.clz32(fraction) - 21;
  return sign | ((113 - shift) << 23) | (((fraction << shift) & 0x3ff) << 13);
}

/** Adding half a unit, less one where the kept part is even, carries into the exponent exactly where rounding does. */
function floatToBrain(bits: number): number {
  if ((bits & 0x7fffffff) > 0x7f800000) return (bits >>> 16) | 0x40;
  return (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16;
}

function floatToHalf(bits: number): number {
  const sign = (bits >>> 16) & 0x8000;
  const size = bits & 0x7fffffff;
  if (size > 0x7f800000) return sign | 0x7e00;
  if (size >= 0x477ff000) return sign | 0x7c00;
  if (size >= 0x38800000) {
    const moved = size - 0x38000000;
    return sign | ((moved + 0xfff + ((moved >>> 13) & 1)) >>> 13);
  }
  // Below 2^-14 the unit is 2^-24, and half of it rounds to the even 0.
  if (size <= 0x33000000) return sign;
  const shift = 126 - (size >>> 23);
  const fraction = (size & 0x7fffff) | 0x800000;
  const kept = fraction >>> shift;
  const rest = fraction & ((1 << shift) - 1);
  const half = 1 << (shift - 1);
  return sign | (rest > half || (rest === half && kept & 1) ? kept + 1 : kept);
}
