import { expect, it } from 'vitest';
import { maskParts } from '../../trainer/learn/data/mask-parts.ts';

it('a row is cut where learning begins and ends; a prompt is never learnt', () => {
  const decode = (ids: readonly number[]) => ids.map((id) => 'abcdef'[id]).join('');
  const row = { promptIds: [0, 1], tokenIds: [2, 3, 4, 5], trained: [true, false, true, true] };
  expect(maskParts(row, decode)).toEqual([
    { learnt: false, tokens: 2, text: 'ab' },
    { learnt: true, tokens: 1, text: 'c' },
    { learnt: false, tokens: 1, text: 'd' },
    { learnt: true, tokens: 2, text: 'ef' },
  ]);
});
