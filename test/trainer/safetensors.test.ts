import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeSafetensors, encodeSafetensors } from '../../trainer/model/files/safetensors.ts';
import type { Tensor } from '../../trainer/model/weights.ts';

/** A file from a header written by hand and as many data bytes as wanted. */
function file(header: string | object, dataBytes: number, { claim }: { claim?: bigint } = {}): Uint8Array {
  const json = new TextEncoder().encode(typeof header === 'string' ? header : JSON.stringify(header));
  const bytes = new Uint8Array(8 + json.length + dataBytes);
  new DataView(bytes.buffer).setBigUint64(0, claim ?? BigInt(json.length), true);
  bytes.set(json, 8);
  return bytes;
}

const f32 = (shape: unknown, begin: unknown, end: unknown): object => ({
  dtype: 'F32',
  shape,
  data_offsets: [begin, end],
});

const code = (bytes: Uint8Array): string => {
  try {
    decodeSafetensors(bytes);
    return 'read';
  } catch (error) {
    return `${(error as { code: string }).code}: ${(error as Error).message}`;
  }
};

const tensors = fc
  .uniqueArray(
    fc.string({ unit: 'grapheme', minLength: 1 }).filter((name) => name !== '__metadata__' && !/^\d+$/.test(name)),
  )
  .chain((names) =>
    fc.tuple(
      ...names.map((name) =>
        fc
          .array(fc.integer({ min: 0, max: 4 }), { maxLength: 3 })
          .chain((shape) =>
            fc
              .float32Array({ minLength: size(shape), maxLength: size(shape) })
              .map((data): [string, Tensor] => [name, { shape, data }]),
          ),
      ),
    ),
  )
  .map((entries) => new Map(entries));

const size = (shape: readonly number[]): number => shape.reduce((a, b) => a * b, 1);

describe('a safetensors file', () => {
  it('gives back every tensor, bit for bit and in order', () => {
    fc.assert(
      fc.property(tensors, (saved) => {
        const { tensors: read, metadata } = decodeSafetensors(encodeSafetensors(saved));
        expect(metadata).toEqual({ format: 'pt' });
        expect([...read.keys()]).toEqual([...saved.keys()]);
        for (const [name, { shape, data }] of saved) {
          expect(read.get(name)!.shape).toEqual(shape);
          expect(new Uint32Array(read.get(name)!.data.buffer)).toEqual(new Uint32Array(Float32Array.from(data).buffer));
        }
      }),
    );
  });

  it('begins its data at a multiple of 8 and can carry metadata beside the format', () => {
    const bytes = encodeSafetensors(new Map([['a', { shape: [1], data: Float32Array.of(1) }]]), {
      metadata: { step: '7' },
    });
    expect(new DataView(bytes.buffer).getBigUint64(0, true) % 8n).toBe(0n);
    expect(decodeSafetensors(bytes).metadata).toEqual({ format: 'pt', step: '7' });
  });

  it('is read wherever it lies in a larger buffer, and owns what it gives', () => {
    const bytes = encodeSafetensors(new Map([['a', { shape: [2], data: Float32Array.of(1, 2) }]]));
    const shifted = Buffer.concat([Buffer.from([0, 0, 0]), bytes]).subarray(3);
    const { data } = decodeSafetensors(shifted).tensors.get('a')!;
    shifted.fill(0);
    expect([...data]).toEqual([1, 2]);
  });

  it('widens F16 and BF16 exactly, subnormals, infinities and NaN included', () => {
    const halves: [number, number][] = [
      [0x0000, 0],
      [0x8000, -0],
      [0x3c00, 1],
      [0xc000, -2],
      [0x7bff, 65504],
      [0x0400, 2 ** -14],
      [0x0001, 2 ** -24],
      [0x83ff, -1023 * 2 ** -24],
      [0x3555, 0.333251953125],
      [0x7c00, Infinity],
      [0xfc00, -Infinity],
      [0x7e00, NaN],
    ];
    const bytes = file(
      { a: { dtype: 'F16', shape: [halves.length], data_offsets: [0, 2 * halves.length] } },
      2 * halves.length,
    );
    const view = new DataView(bytes.buffer, bytes.length - 2 * halves.length);
    for (const [i, [bits]] of halves.entries()) view.setUint16(2 * i, bits, true);
    expect([...decodeSafetensors(bytes).tensors.get('a')!.data]).toEqual(halves.map(([, value]) => value));

    const brain = file({ a: { dtype: 'BF16', shape: [3], data_offsets: [0, 6] } }, 6);
    for (const [i, bits] of [0x3f80, 0xc049, 0x7f80].entries()) {
      new DataView(brain.buffer, brain.length - 6).setUint16(2 * i, bits, true);
    }
    expect([...decodeSafetensors(brain).tensors.get('a')!.data]).toEqual([1, -3.140625, Infinity]);
  });

  it.each<[string, Uint8Array, RegExp]>([
    ['is empty', new Uint8Array(0), /0 bytes/],
    ['ends in the length', new Uint8Array(5), /5 bytes/],
    ['claims a header of 2^64 - 1 bytes', file('{}', 0, { claim: 2n ** 64n - 1n }), /18446744073709551615/],
    ['claims a header over 100 MB', file('{}', 0, { claim: 100_000_001n }), /100000001/],
    ['claims a header longer than itself', file('{}', 0, { claim: 3n }), /only 2 follow/],
    ['has a header that is not an object', file('[]', 0), /start with \{/],
    ['has a header that is not JSON', file('{"a":', 0), /not JSON/],
    ['has a header that is not UTF-8', file('{"\u0000"', 0).fill(0xff, 10, 11), /not JSON/],
    ['has a header of brackets', file(`{"a":${'['.repeat(1_000_000)}`, 0), /nested/],
    [
      'names a tensor twice',
      file(`{"a":${JSON.stringify(f32([1], 0, 4))},"a":${JSON.stringify(f32([1], 0, 4))}}`, 4),
      /twice/,
    ],
    [
      'names a tensor twice in two spellings',
      file(`{"a":${JSON.stringify(f32([1], 0, 4))},"\\u0061" :${JSON.stringify(f32([1], 0, 4))}}`, 4),
      /twice/,
    ],
    [
      'gives a tensor two shapes',
      file('{"a":{"dtype":"F32","shape":[9],"shape":[1],"data_offsets":[0,4]}}', 4),
      /"shape" twice/,
    ],
    ['has a hole', file({ a: f32([1], 0, 4), b: f32([1], 8, 12) }, 12), /hole of 4 bytes/],
    ['begins with a hole', file({ a: f32([1], 4, 8) }, 8), /hole of 4 bytes/],
    ['has an overlap', file({ a: f32([2], 0, 8), b: f32([2], 4, 12) }, 12), /overlaps/],
    ['has two tensors in one place', file({ a: f32([1], 0, 4), b: f32([1], 0, 4) }, 4), /overlaps/],
    ['has an empty tensor inside another', file({ a: f32([2], 0, 8), b: f32([0], 4, 4) }, 8), /overlaps/],
    ['has bytes left over', file({ a: f32([1], 0, 4) }, 5), /1 bytes follow the last/],
    ['is cut in its data', file({ a: f32([2], 0, 8) }, 7), /need 8 bytes and 7/],
    ['has a shape that overflows 64 bits to what fits', file({ a: f32([2 ** 32, 2 ** 32], 0, 0) }, 0), /too large/],
    ['hides an overflow behind a 0', file({ a: f32([2 ** 40, 2 ** 40, 0], 0, 0) }, 0), /too large/],
    ['has a shape that does not fit its bytes', file({ a: f32([3], 0, 8) }, 8), /needs 12 bytes/],
    ['has a negative dimension', file({ a: f32([-1], 0, 4) }, 4), /shape \[-1\]/],
    ['has a dimension that is not whole', file({ a: f32([0.5], 0, 2) }, 2), /shape/],
    ['has a negative offset', file({ a: f32([1], -4, 0) }, 4), /data_offsets/],
    ['has its offsets in the wrong order', file({ a: f32([1], 4, 0) }, 4), /hold -4/],
    ['has offsets beyond what is exact', file({ a: f32([1], 2 ** 60, 2 ** 60 + 4) }, 4), /data_offsets/],
    ['has no offsets', file({ a: { dtype: 'F32', shape: [1] } }, 4), /data_offsets nothing/],
    ['has a tensor that is null', file({ a: null }, 0), /no dtype/],
    ['has a tensor with another field', file({ a: { ...f32([1], 0, 4), run: 'me' } }, 4), /unknown field "run"/],
    ['has metadata that is not text', file({ __metadata__: { format: 1 } }, 0), /__metadata__.format/],
    ['has metadata that is a list', file({ __metadata__: [] }, 0), /__metadata__/],
  ])('P52: is refused where it %s', (_, bytes, why) => {
    expect(code(bytes)).toMatch(/^checkpoint_damaged/);
    expect(code(bytes)).toMatch(why);
  });

  it.each(['I64', 'F64', 'F8_E4M3', 'BOOL', 'toString'])('names the dtype %s that it cannot read', (dtype) => {
    expect(code(file({ a: { dtype, shape: [0], data_offsets: [0, 0] } }, 0))).toMatch(
      new RegExp(`^model_unsupported: tensor "a" is stored as "${dtype}"`),
    );
  });

  it('P52: never does anything but read or refuse, whatever the bytes', () => {
    const sound = encodeSafetensors(
      new Map([
        ['a', { shape: [2], data: Float32Array.of(1, 2) }],
        ['b', { shape: [1, 1], data: Float32Array.of(3) }],
      ]),
    );
    fc.assert(
      fc.property(fc.nat(sound.length - 1), fc.nat(255), fc.nat(sound.length), (at, value, cut) => {
        const bytes = sound.slice(0, cut);
        if (at < cut) bytes[at] = value;
        expect(code(bytes)).toMatch(/^(read|checkpoint_damaged|model_unsupported)/);
      }),
      { numRuns: 2000 },
    );
  });
});
