import { expect, it } from 'vitest';
import { table } from '../../cli/output.ts';

it('A long cell of a table is cut with a sign of it, and no character in half', () => {
  const shown = table(['text'], [[`${'z'.repeat(78)}😀 and more`]]);
  expect(shown).toContain(`${'z'.repeat(78)}…`);
  expect(shown.isWellFormed()).toBe(true);
});
