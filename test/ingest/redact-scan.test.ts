import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { finderOf } from '../../ingest/events/redact-scan.ts';
import { anyCharacter } from '../support/character.ts';

const LITERALS = ['xox', '://', 'eyJ', 'earer ', 'ecret', 'sk-ant-', 'PRIVATE KEY'];
const find = finderOf(LITERALS);
const holds = (text: string): boolean => LITERALS.some((literal) => text.includes(literal));

describe('looking for many literals at once', () => {
  it('finds what looking for each finds, wherever it stands and whatever is around it', () => {
    const cut = LITERALS.flatMap((literal) => [literal, literal.slice(1), literal.slice(0, -1)]);
    // Characters whose low byte is a letter of a literal: \u0178 and \u6f6f are x and o when cut to a byte.
    const piece = fc.oneof(
      fc.constantFrom(...cut, '\u0178\u6f6f\u0178', '\u033a\u002f\u002f', ' ', 'are ear', '\ud83d\ude00', '\ud800'),
      fc.string({ unit: anyCharacter, maxLength: 4 }),
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
        const text = pieces.join('');
        expect(find(text)).toBe(holds(text));
      }),
      { numRuns: 2000 },
    );
  });

  it('finds it at every place of a text that is longer than what is looked at together', () => {
    for (const around of [65_533, 65_534, 65_535, 65_536, 65_537, 131_068, 131_070, 131_072, 200_000]) {
      for (let before = around - 14; before <= around; before++) {
        const filler = '.'.repeat(before);
        for (const literal of ['xox', 'PRIVATE KEY']) {
          expect(find(`${filler}${literal}`)).toBe(true);
          expect(find(`${filler}${literal}${filler}`)).toBe(true);
          expect(find(`${filler}${literal.slice(0, -1)}`)).toBe(false);
        }
      }
    }
  });
});
