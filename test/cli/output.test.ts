import { expect, it } from 'vitest';
import { forTerminal, table } from '../../cli/output.ts';

it('A long cell of a table is cut with a sign of it, and no character in half', () => {
  const shown = table(['text'], [[`${'z'.repeat(78)}😀 and more`]]);
  expect(shown).toContain(`${'z'.repeat(78)}…`);
  expect(shown.isWellFormed()).toBe(true);
});

it('Columns of a table stand below each other also where characters take two columns of a terminal, or none', () => {
  const rows = [
    ['审校', 1],
    ['한국어', 22],
    ['👩‍👩‍👧 ✔️', 3],
    ['e\u0301te\u0301', 4],
    ['Ελλάδα', 5],
  ] as const;
  // By the widths that terminals give: two for a Chinese or Korean character and an emoji of any length, one for a letter with its accents.
  const [, ...lines] = table(['role', 'n'], rows).split('\n');
  expect(lines).toEqual(['审校     1', '한국어  22', '👩‍👩‍👧 ✔️    3', 'e\u0301te\u0301      4', 'Ελλάδα   5']);
});

it('What a terminal would obey is not written to it, but line breaks, tabs and colours are', () => {
  const copied = '\u001b]52;c;cm0gLXJmIC8=\u0007';
  expect(forTerminal(`a\r\u001b[2Jb\u009b2J${copied}\u001b[31mred\u001b[39m\n\tend 한\u007f`)).toBe(
    'a\uFFFD\uFFFD[2Jb\uFFFD2J\uFFFD]52;c;cm0gLXJmIC8=\uFFFD\u001b[31mred\u001b[39m\n\tend 한\uFFFD',
  );
});
