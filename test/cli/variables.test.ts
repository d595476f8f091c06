import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { oneSlip, refuseUnknownVariables } from '../../cli/variables.ts';
import { SETTINGS } from '../../config.ts';
import { misspelt } from '../../proofs/compose/wrong-variables.ts';

const OURS = [...Object.values(SETTINGS).map(({ env }) => env), 'TROUPE_API_KEY'];
const refusal = (env: Record<string, string>): string => {
  try {
    refuseUnknownVariables(env);
    return '';
  } catch (error) {
    return (error as Error).message;
  }
};

describe('The environment', () => {
  it('P54: a variable of ours that is misspelt by one slip is refused by both names, whatever it is', () => {
    const numbers = fc.array(fc.double({ min: 0, max: 0.999, noNaN: true }), { minLength: 2, maxLength: 2 });
    fc.assert(
      fc.property(fc.constantFrom(...OURS), numbers, (name, drawn) => {
        const next = [...drawn];
        const wrong = misspelt(name, () => next.shift()!);
        if (OURS.includes(wrong)) return;
        expect(oneSlip(wrong, name)).toBe(true);
        const refusalText = refusal({ [wrong]: 'x' });
        expect([wrong, refusalText]).toEqual([wrong, expect.stringContaining(wrong)]);
        expect(refusalText).toMatch(/is meant/);
      }),
    );
  });

  it('what is ours, what is empty and what belongs to others is taken', () => {
    expect(refusal(Object.fromEntries(OURS.map((name) => [name, 'x'])))).toBe('');
    const others = {
      PATH: '/bin',
      KAFKA_HEAP_OPTS: 'x',
      DATABASE: 'x',
      TROUPE_OPENAI_KEY: 'k',
      TROUPE_BENCH_PYTHON: 'p',
    };
    expect(refusal(others)).toBe('');
    expect(refusal({ TROUPE_HOEM: '' })).toBe('');
  });

  it('TROUPE_ and anything that is not known is refused with the nearest that is, and without a list of all', () => {
    expect(refusal({ TROUPE_SPEED: 'high' })).toBe('The environment has TROUPE_SPEED, which Troupe does not know.');
    expect(refusal({ TROUPE_UPSTREAM: 'x' })).toBe(
      'The environment has TROUPE_UPSTREAM; if TROUPE_UPSTREAMS is meant, rename it. If it belongs to another program, set TROUPE_UPSTREAMS too, if only to nothing.',
    );
    expect(refusal({ TROUPE_TRAININK: '1' })).toBe(
      'The environment has TROUPE_TRAININK, which Troupe does not know. Did you mean TROUPE_TRAININGS?',
    );
  });

  it("another program's DATABASE_URI stops it until DATABASE_URL is declared empty", () => {
    expect(refusal({ DATABASE_URI: 'mysql://x' })).toMatch(/set DATABASE_URL too/);
    expect(refusal({ DATABASE_URI: 'mysql://x', DATABASE_URL: '' })).toBe('');
  });
});
