import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeSafetensors, joined } from '../../trainer/model/files/safetensors.ts';
import { readModelConfig } from '../../trainer/model/model-config.ts';
import { modelFiles } from '../../trainer/model/model-export.ts';
import { tinyConfig, tinyContents } from './tiny-checkpoint.ts';

const contents = tinyContents(1);
const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);
const filesOf = (options: Parameters<typeof modelFiles>[1]) =>
  new Map([...modelFiles(contents, options)].map(([name, parts]) => [name, joined(parts)]));

describe('a model as files for others', () => {
  it('is one file of weights, with its number type in the configuration', () => {
    for (const [dtype, named, bytes] of [
      ['F32', 'float32', 4],
      ['BF16', 'bfloat16', 2],
      ['F16', 'float16', 2],
    ] as const) {
      const files = filesOf({ dtype });
      const config = JSON.parse(text(files.get('config.json')!));
      expect([config.torch_dtype, readModelConfig(config)]).toEqual([named, tinyConfig]);
      expect(text(files.get('tokenizer.json')!)).toBe(contents.sideFiles['tokenizer.json']);
      const { tensors } = decodeSafetensors(files.get('model.safetensors')!);
      expect([...tensors.keys()]).toEqual([...contents.weights.keys()]);
      // The first number of 16 bits is off by half of its last digit at most.
      const close = { F32: 0, F16: 2 ** -11, BF16: 2 ** -8 }[dtype];
      for (const [name, { data }] of tensors) {
        const before = contents.weights.get(name)!.data;
        const worst = Math.max(...data.map((x, i) => Math.abs(x - before[i]!) / (Math.abs(before[i]!) + 1e-3)));
        expect([name, worst <= close]).toEqual([name, true]);
      }
      const size = [...tensors.values()].reduce((sum, { data }) => sum + data.length * bytes, 0);
      expect(files.get('model.safetensors')!.length).toBeGreaterThan(size);
    }
  });

  it('is cut into shards of at most the size asked for, whose index names each tensor once', () => {
    const whole = decodeSafetensors(filesOf({}).get('model.safetensors')!).tensors;
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 12_000 }), (maxShard) => {
        const files = filesOf({ maxShard });
        const shards = [...files.keys()].filter((name) => name.endsWith('.safetensors'));
        if (shards.length === 1) {
          expect(shards).toEqual(['model.safetensors']);
          return;
        }
        const index = JSON.parse(text(files.get('model.safetensors.index.json')!));
        const found = new Map(
          shards.flatMap((name) => {
            const { tensors } = decodeSafetensors(files.get(name)!);
            const bytes = [...tensors.values()].reduce((sum, { data }) => sum + data.byteLength, 0);
            if (tensors.size > 1) expect(bytes).toBeLessThanOrEqual(maxShard);
            for (const tensor of tensors.keys()) expect(index.weight_map[tensor]).toBe(name);
            return [...tensors];
          }),
        );
        expect(found).toEqual(whole);
        expect(Object.keys(index.weight_map)).toEqual([...whole.keys()]);
        const total = [...whole.values()].reduce((sum, { data }) => sum + data.byteLength, 0);
        expect(index.metadata.total_size).toBe(total);
        const of = String(shards.length).padStart(5, '0');
        expect(shards.at(-1)).toBe(`model-${of}-of-${of}.safetensors`);
      }),
      { numRuns: 60 },
    );
  });

  it('refuses shards of nothing', () => {
    expect(() => modelFiles(contents, { maxShard: 0 })).toThrow(expect.objectContaining({ code: 'usage' }));
  });
});
