import { expect, it } from 'vitest';
import { rightOf } from '../../../store/evaluate/judging/influence.ts';

it.each([
  [1, 'failure', true],
  [0, 'success', false],
  [0.5, 'success', true],
  [0.5, 'failure', false],
  [null, 'success', true],
  [null, 'failure', false],
  [null, 'unknown', null],
  [0.5, null, null],
] as const)('an episode with reward %j and outcome %j came out right: %j', (reward, outcome, right) => {
  expect(rightOf({ reward, outcome })).toBe(right);
});
