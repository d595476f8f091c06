import { afterEach, expect, it, vi } from 'vitest';
import { forTerminal, progressBar, sayTo, table } from '../../cli/output.ts';

afterEach(() => {
  vi.useRealTimers();
});

/** What a bar says where no person looks, each with how many seconds have passed before it. */
function said(
  updates: readonly (readonly [seconds: number, done: number, total: number, note?: string])[],
  flags = {},
) {
  vi.useFakeTimers({ toFake: ['performance'] });
  const lines: string[] = [];
  sayTo((text) => void lines.push(text));
  const bar = progressBar('Reading', flags);
  for (const [seconds, ...update] of updates) {
    vi.advanceTimersByTime(1000 * seconds);
    bar.update(...update);
  }
  bar.stop();
  sayTo((text) => void process.stderr.write(`${text}\n`));
  return lines;
}

it('The bar of long work is a line at first, one every five seconds, and one at the end', () => {
  const updates = [
    [0, 1, 8],
    [1, 2, 8],
    [3, 3, 8],
    [2, 4, 8, 'a.json'],
    [0, 8, 8],
    [9, 8, 8],
  ] as const;
  expect(said(updates)).toEqual(['Reading: 12 %', 'Reading: 50 % a.json', 'Reading: 100 %']);
  expect(said(updates, { quiet: true })).toEqual([]);
  expect(said(updates, { json: true })).toEqual([]);
});

it('The bar of work whose total is not known says every five seconds how much is done', () => {
  expect(
    said([
      [0, 1, 0, '1 byte'],
      [6, 2, 0, '2 bytes'],
      [1, 3, 0, '3 bytes'],
      [5, 4, 0, '4 bytes'],
    ]),
  ).toEqual(['Reading: 2 bytes', 'Reading: 4 bytes']);
});

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
