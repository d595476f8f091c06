/** What methods are held against: each row can be asked of ours, and the same seed asks the same. */
import { describe, expect, it } from 'vitest';
import { drawing } from '../../proofs/draw.ts';
import type { Input, MethodSource } from '../../proofs/method-source.ts';
import { ADVANTAGES } from '../../proofs/method-sources-advantages.ts';
import { FILTERS } from '../../proofs/method-sources-filters.ts';
import { LOSSES } from '../../proofs/method-sources-losses.ts';
import { PROCESS } from '../../proofs/method-sources-process.ts';
import { REWARDS } from '../../proofs/method-sources-rewards.ts';
import { findMethod, METHODS } from '../../store/evaluate/methods/find.ts';
import { runMethod } from '../../store/evaluate/methods/run.ts';
import { LOSS_METHODS } from '../../trainer/model/losses/catalogue.ts';

const SOURCES: readonly MethodSource[] = [...ADVANTAGES, ...LOSSES, ...FILTERS, ...REWARDS, ...PROCESS];
const inputsOf = ({ draw }: MethodSource, seed: number): Input[] => {
  const random = drawing(seed);
  return Array.from({ length: 50 }, () => draw(random));
};

describe('The inputs that methods and published code are compared on', () => {
  it.each(SOURCES.map((source) => [`${source.method} of ${source.project} (${source.published})`, source] as const))(
    '%s: most are answered, and the same seed draws the same',
    (_, source) => {
      const { method, ours = (input: Input) => input } = source;
      const found = findMethod(method, [...METHODS, ...LOSS_METHODS]);
      const inputs = inputsOf(source, 5);
      const answered = inputs.filter((input) => {
        try {
          return runMethod(found, ours(input as never)) !== undefined;
        } catch (error) {
          expect(error).toMatchObject({ code: 'method_input' });
          return false;
        }
      });
      expect(answered.length).toBeGreaterThan(inputs.length / 2);
      expect(inputsOf(source, 5)).toEqual(inputs);
      expect(inputsOf(source, 6)).not.toEqual(inputs);
    },
  );
});
