/** Texts of models on which a pattern that goes back would take minutes: digits, white space and openings without an end. */
import { describe, expect, it } from 'vitest';
import { canonicalAnswer } from '../../../store/evaluate/consistency/canonical-answer.ts';
import { sameAnswer } from '../../../store/evaluate/methods/answer.ts';
import { hasBox } from '../../../store/evaluate/methods/boxed.ts';
import { isChainOfDraft } from '../../../store/evaluate/methods/draft-rl.ts';
import { tagInput } from '../../../store/evaluate/methods/grpo-roc.ts';
import { readFilter } from '../../../store/filter/episode-filter.ts';
import { faultOf } from '../../../store/loop/play/faults.ts';
import { callReader } from '../../../trainer/model/tokens/tool-calls.ts';
import { expectBelow } from '../../support/measured.ts';

const LONG = 500_000;
const STEP = { step_id: 'c/0', call_id: 'c', chosen: true };
const digits = `${'0'.repeat(LONG)}x`;
const blank = ' '.repeat(LONG);
const withNumbers = '12 pages, '.repeat(LONG / 50);

const wrongNumber = (text: string): string => {
  const fault = faultOf('wrong-number');
  return 'answer' in fault ? (fault.answer({ text, agent: null, before: [] } as never) ?? '') : '';
};

describe('A text of a model', () => {
  it.each([
    ['of digits is no number', () => canonicalAnswer(digits, { choices: false }), digits],
    ['of digits is another answer', () => sameAnswer(digits, '0', false), false],
    ['that opens boxes closes none', () => hasBox('\\boxed{'.repeat(LONG / 7), 0), false],
    ['that closes a box in others has one', () => hasBox(`${'\\boxed{'.repeat(LONG / 7)}}`, 0), true],
    ['of a step and white space is no draft', () => isChainOfDraft(`1: ${blank}x\r.`, 5), false],
    ['with many numbers has a wrong last one', () => wrongNumber(withNumbers).slice(-20), '12 pages, 13 pages, '],
    [
      'that opens answers closes none',
      () => tagInput({ contentOf: () => ({ text: '<answer>'.repeat(LONG / 8) }) } as never, [STEP] as never),
      { open_tags: LONG / 8, close_tags: 0, closed_pairs: 0, turns: 1 },
    ],
    ['of a call without an end has none', () => callReader('<tool_call>')!(`<tool_call>${blank}x${blank}`), null],
    [
      'of arguments without an end has none',
      () => callReader('<tool_call>')!(`<tool_call>{"name":"a","arguments":${blank}x${blank}`),
      null,
    ],
  ] as const)('%s, at once', (_, read, expected) => {
    const began = performance.now();
    expect(read()).toEqual(expected);
    expectBelow(performance.now() - began, 5000);
  });

  it('is no filter', () => {
    const began = performance.now();
    expect(() => readFilter(`reward > ${digits}`, 'filter')).toThrow();
    expectBelow(performance.now() - began, 5000);
  });
});
