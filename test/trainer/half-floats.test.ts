import { describe, expect, it } from 'vitest';
import { type HalfType, narrow, overflowing, widen } from '../../trainer/model/files/half-floats.ts';
import { decodeSafetensors, encodeSafetensors } from '../../trainer/model/files/safetensors.ts';

const all = Uint16Array.from({ length: 65536 }, (_, i) => i);
const widened = (type: HalfType, halves: Uint16Array): Float32Array => {
  const floats = new Float32Array(halves.length);
  widen(type, halves, floats);
  return floats;
};

describe.each<HalfType>(['F16', 'BF16'])('%s', (type) => {
  const values = widened(type, all);

  it('comes back as the same bits for each of its 65,536 values, NaN as a NaN', () => {
    const back = narrow(type, values);
    for (let i = 0; i < 65536; i++) {
      if (Number.isNaN(values[i])) expect(Number.isNaN(widened(type, back.slice(i, i + 1))[0])).toBe(true);
      else if (back[i] !== i) expect(back[i]).toBe(i);
    }
  });

  it('rounds what lies between two values to the nearest, and in the middle to the even one', () => {
    const positive = [...all].filter((i) => i < 0x8000 && Number.isFinite(values[i + 1]!));
    let checked = 0;
    for (const i of positive) {
      const [low, high] = [values[i]!, values[i + 1]!];
      const middle = (low + high) / 2;
      // One step of 32 bits to either side of the middle, where such a step is smaller than the distance.
      const bits = new Uint32Array(Float32Array.of(middle).buffer);
      const beside = new Float32Array(Uint32Array.of(bits[0]! - 1, bits[0]! + 1).buffer);
      const even = i % 2 === 0 ? i : i + 1;
      const signed = Float32Array.of(beside[0]!, middle, beside[1]!, -beside[0]!, -middle, -beside[1]!);
      if (!(low < beside[0]! && beside[1]! < high)) continue;
      const found = [...narrow(type, signed)];
      const expected = [i, even, i + 1];
      if (String(found) !== String([...expected, ...expected.map((half) => half | 0x8000)])) {
        expect(found, `${middle}`).toEqual([...expected, ...expected.map((half) => half | 0x8000)]);
      }
      checked++;
    }
    expect(checked).toBeGreaterThan(30_000);
  });

  it('keeps infinities and knows which finite values would become one', () => {
    const most = type === 'F16' ? 65504 : 3.3895313892515355e38;
    const limit = type === 'F16' ? 65520 : 1.99609375 * 2 ** 127;
    const below = new Float32Array(Uint32Array.of(new Uint32Array(Float32Array.of(limit).buffer)[0]! - 1).buffer)[0]!;
    expect(overflowing(type, Float32Array.of(0, most, -below, Infinity, NaN, -limit, limit))).toBe(5);
    expect(overflowing(type, Float32Array.of(most, -Infinity, NaN))).toBe(-1);
    expect([...widened(type, narrow(type, Float32Array.of(below, limit, -Infinity)))]).toEqual([
      Math.fround(most),
      Infinity,
      -Infinity,
    ]);
  });

  it('is how a safetensors file stores what it can hold, and is refused for what it cannot', () => {
    const data = values.filter((value) => Number.isFinite(value)).slice(0, 1000);
    const file = encodeSafetensors(new Map([['a', { shape: [10, 100], data }]]), { dtype: type });
    expect(file.length).toBeLessThan(2 * data.length + 300);
    expect(decodeSafetensors(file).tensors.get('a')).toEqual({ shape: [10, 100], data });
    const large = type === 'F16' ? 70000 : 3.4e38;
    expect(() =>
      encodeSafetensors(new Map([['big', { shape: [2], data: Float32Array.of(1, large) }]]), { dtype: type }),
    ).toThrow(new RegExp(`"big" holds .*too large for ${type}`));
  });
});
