import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

describe('a randomised test', () => {
  it('P58: prints its seed and a one-line command that replays it when it fails', () => {
    const seen: number[] = [];
    const failing = () =>
      fc.assert(
        fc.property(fc.integer(), (n) => {
          seen.push(n);
          return n < 1000;
        }),
        { seed: 4242, numRuns: 1000 },
      );
    expect(failing).toThrow(
      'Replay it: TROUPE_SEED=4242 npx vitest run test/replay.test.ts -t "P58: prints its seed and a one-line command that replays it when it fails"',
    );
    const first = [...seen];
    seen.length = 0;
    expect(failing).toThrow();
    expect(seen).toEqual(first);
  });

  it('P58: says the same for an asynchronous property', async () => {
    const property = fc.asyncProperty(fc.boolean(), async (yes) => yes);
    await expect(fc.assert(property, { seed: 7 })).rejects.toThrow(
      'Replay it: TROUPE_SEED=7 npx vitest run test/replay.test.ts',
    );
  });
});
