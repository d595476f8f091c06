import fc from 'fast-check';
import { expect, it } from 'vitest';
import { KeyValueCache, slotsFor } from '../../trainer/sample/key-value-cache.ts';

const sizes = { layers: 1, H: 2, D: 3 };

const share = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
/**
 * What comes and goes: a prompt of so many tokens, as the last row or in the place of the one at a share of the list, one more token for
 * every row, or a row leaves.
 */
const change = fc.oneof(
  { weight: 2, arbitrary: fc.record({ put: fc.integer({ min: 1, max: 70 }), over: fc.option(share) }) },
  { weight: 4, arbitrary: fc.record({ steps: fc.integer({ min: 1, max: 20 }) }) },
  { weight: 2, arbitrary: fc.record({ remove: share }) },
);

it('feeds of every row its own tokens in order, and masks the rest, whoever comes and goes', () => {
  fc.assert(
    fc.property(fc.array(change, { maxLength: 40 }), (changes) => {
      const cache = new KeyValueCache(sizes);
      const { H, D } = sizes;
      // Plain lists: of each row its tokens, of each token a number that all its floats are made from.
      const rows: number[][] = [];
      let next = 1;
      const float = (array: number, token: number, h: number, d: number) => token + 0.25 * array + 0.01 * (h * D + d);
      for (const each of changes) {
        if ('put' in each) {
          const tokens = Array.from({ length: each.put }, () => next++);
          const arrays = [0, 1].map((a) =>
            Float32Array.from({ length: H * each.put * D }, (_, i) => {
              const h = Math.floor(i / (each.put * D));
              return float(a, tokens[Math.floor(i / D) % each.put]!, h, i % D);
            }),
          );
          const row = each.over === null ? rows.length : Math.floor(each.over * rows.length);
          cache.put(row, arrays);
          rows[row] = tokens;
        } else if ('steps' in each) {
          for (let step = 0; step < each.steps && rows.length > 0; step++) {
            const fresh = rows.map(() => next++);
            cache.append(
              [0, 1].map((a) =>
                Float32Array.from({ length: rows.length * H * D }, (_, i) =>
                  float(a, fresh[Math.floor(i / (H * D))]!, Math.floor(i / D) % H, i % D),
                ),
              ),
            );
            for (const [row, token] of fresh.entries()) rows[row]!.push(token);
          }
        } else if (rows.length > 0) {
          const row = Math.floor(each.remove * rows.length);
          cache.remove(row);
          const last = rows.pop()!;
          if (row < rows.length) rows[row] = last;
          cache.trim();
        }
        expect(cache.rows).toBe(rows.length);
        if (rows.length === 0) continue;
        const feeds = cache.feeds();
        const C = feeds['own.k.0']!.shape[2]!;
        expect(C).toBeGreaterThanOrEqual(slotsFor(Math.max(...rows.map((tokens) => tokens.length))));
        for (const [row, tokens] of rows.entries()) {
          const mask = feeds['own.mask']!.data.subarray(row * (1 + C), (row + 1) * (1 + C));
          expect([...mask.keys()].filter((i) => mask[i] === 0)).toEqual([0, ...tokens.map((_, i) => i + 1)]);
          for (const [a, name] of ['own.k.0', 'own.v.0'].entries()) {
            const { data, shape } = feeds[name]!;
            expect(shape).toEqual([rows.length, H, C, D]);
            for (const [slot, token] of tokens.entries()) {
              const at = ((row * H + (slot % H)) * C + slot) * D;
              expect(data[at + 1]).toBe(Math.fround(float(a, token, slot % H, 1)));
            }
          }
        }
      }
    }),
    { numRuns: 60 },
  );
});
