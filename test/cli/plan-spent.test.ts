import { expect, it } from 'vitest';
import { spentText } from '../../api/operations/plan/text.ts';

const nothing = { tokens: 12, uncounted: 0, usd: null, unpriced: 0, untold: { tokens: 0, usd: 0 }, minutes: 2 };

it('plan show names US dollars only where a call, a program or the budget has to do with a price', () => {
  expect(spentText(nothing, { tokens: 20 })).toBe('tokens 12 of 20 · minutes 2.0');
  expect(spentText({ ...nothing, usd: 0.25 }, {})).toBe('tokens 12 · USD 0.25 · minutes 2.0');
  expect(spentText(nothing, { usd: 3 })).toBe('tokens 12 · USD unknown of 3 · minutes 2.0');
  expect(spentText({ ...nothing, unpriced: 2 }, {})).toBe(
    'tokens 12 · USD unknown, without 2 calls of unknown price · minutes 2.0',
  );
  expect(spentText({ ...nothing, untold: { tokens: 0, usd: 1 } }, {})).toContain('USD unknown, without 1 training');
});
