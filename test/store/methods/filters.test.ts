import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { findMethod } from '../../../store/evaluate/methods/find.ts';
import { criticismText } from '../../../store/evaluate/methods/m500.ts';
import { runMethod } from '../../../store/evaluate/methods/run.ts';

const run = (name: string, input: unknown) => runMethod(findMethod(name), input);

describe('critics', () => {
  test('agreement is the literal marker, whatever stands beside it', () => {
    expect(run('critic_agrees', { text: '[Disagree] no, wait: [Agree]' })).toBe(true);
    for (const text of ['', '[agree]', '[ Agree ]', 'I agree.', '[Disagree]']) {
      expect(run('critic_agrees', { text })).toBe(false);
    }
  });

  test('a criticism is the message without its marker, and empty for a critic that agrees', () => {
    expect(criticismText('[Disagree]\n\n\nstep 2\n\nis wrong ')).toBe('step 2\nis wrong');
    expect(criticismText('[Disagree]')).toBe('');
    expect(criticismText('fine [Agree] but long')).toBe('');
  });

  test('a critic that neither agrees nor says anything does not block', () => {
    for (const content of ['', '  \n ', '[Disagree]']) {
      expect(run('consensus_filter', { rounds: [[{ agree: false, content }]] })).toEqual({ pass: true, round: 1 });
    }
  });

  test('a round beyond the limit comes too late', () => {
    const blocked = [{ agree: false, content: 'no' }];
    const free = [{ agree: true, content: '' }];
    expect(run('consensus_filter', { rounds: [blocked, blocked, blocked, free] })).toEqual({
      pass: false,
      round: null,
    });
    expect(run('consensus_filter', { rounds: [blocked, free], max_critic_iterations: 1 })).toEqual({
      pass: false,
      round: null,
    });
    expect(run('consensus_filter', { rounds: [blocked, blocked, free] })).toEqual({ pass: true, round: 3 });
  });

  test('a round without critics passes; no rounds at all is no consensus', () => {
    expect(run('consensus_filter', { rounds: [[]] })).toEqual({ pass: true, round: 1 });
    expect(run('consensus_filter', { rounds: [] })).toEqual({ pass: false, round: null });
  });
});

describe('format', () => {
  const passes = (text: string, needs_box = false) =>
    (run('format_filter', { messages: [{ text, needs_box }] }) as { pass: boolean }).pass;

  test('one thought, opened before it is closed and not blank', () => {
    expect(passes('before <think>x</think> after')).toBe(true);
    for (const bad of [
      '',
      '<think> </think>',
      '</think>x<think>',
      '<think>x',
      'x</think>',
      '<think>x</think><think>y</think>',
      '<think><think>x</think>',
      '<think>x</think></think>',
    ]) {
      expect(passes(bad), bad).toBe(false);
    }
  });

  test('a needed box must close, and stand after the thought', () => {
    expect(passes('<think>x</think> \\boxed{\\frac{1}{2}}', true)).toBe(true);
    expect(passes('<think>x</think> \\boxed{1} or \\boxed{2', true)).toBe(true);
    expect(passes('<think>\\boxed{1}</think> one', true)).toBe(false);
    expect(passes('<think>x</think> \\boxed{\\frac{1}{2}', true)).toBe(false);
  });

  test('no messages break no rule', () => {
    expect(run('format_filter', { messages: [] })).toEqual({ pass: true, bad: [] });
  });

  test('keeping only the messages that pass leaves nothing to drop', () => {
    const part = fc.constantFrom('<think>', '</think>', 'x', ' ', '\\boxed{', '}');
    fc.assert(
      fc.property(fc.array(fc.array(part, { maxLength: 6 }), { maxLength: 6 }), (texts) => {
        const messages = texts.map((parts) => ({ text: parts.join(''), needs_box: true }));
        const { bad } = run('format_filter', { messages }) as { bad: number[] };
        const kept = messages.filter((_, i) => !bad.includes(i));
        expect(run('format_filter', { messages: kept })).toEqual({ pass: true, bad: [] });
      }),
    );
  });
});

describe('boxed answers', () => {
  test('the last box counts, even when it never closes', () => {
    expect(run('boxed_answer', { text: '\\boxed{1} and \\boxed{2' })).toBeNull();
    expect(run('boxed_answer', { text: 'no box' })).toBeNull();
    expect(run('boxed_answer', { text: '\\boxed{}' })).toBe('');
    expect(run('boxed_answer', { text: '\\boxed{a} }' })).toBe('a');
  });

  test('what is put into a box with balanced braces comes out of it', () => {
    const { balanced } = fc.letrec<{ balanced: string }>((tie) => ({
      balanced: fc.oneof(
        { depthSize: 'small' },
        fc.constantFrom('', 'x', '12', ' '),
        tie('balanced').map((inner) => `{${inner}}`),
        fc.tuple(tie('balanced'), tie('balanced')).map(([a, b]) => a + b),
      ),
    }));
    fc.assert(
      fc.property(balanced, (inner) => {
        expect(run('boxed_answer', { text: `so \\boxed{0} \\boxed{${inner}} }` })).toBe(inner);
      }),
    );
  });
});

describe('answers', () => {
  test('each stripping is done once, and dollar signs need not be a pair', () => {
    const cases = { '$ 42': '42', '42$': '42', $$x$$: '$x$', 'a..': 'a.', ' a \n\t b ': 'a b', $: '', '': '', '.': '' };
    for (const [text, expected] of Object.entries(cases)) expect(run('normalise_answer', { text })).toBe(expected);
  });

  const same = (answer: string | null, reference: string, choices = false) =>
    (run('correctness_filter', { pairs: [{ answer, reference, choices }] }) as boolean[])[0];

  test('plain numbers and fractions are compared as numbers', () => {
    for (const [a, b] of [
      ['0.50', '.5'],
      ['+3', '3.'],
      ['-1/2', '-0.5'],
      ['1 / 3', '2/6'],
      ['0.1', '0.1000000001'],
    ] as const) {
      expect(same(a, b), `${a} ${b}`).toBe(true);
    }
  });

  test('what only looks like a number is text', () => {
    for (const [a, b] of [
      ['1e3', '1000'],
      ['1,000', '1000'],
      ['50%', '0.5'],
      ['1/0', '2/0'],
      ['0.1', '0.10000001'],
      ['Paris', 'paris'],
      ['', '0'],
    ] as const) {
      expect(same(a, b), `${a} ${b}`).toBe(false);
    }
  });

  test('letters are compared only where there are choices', () => {
    for (const answer of ['B', '(B)', 'B)', 'B.', 'b', 'B) because', '(b) because']) {
      expect(same(answer, 'B', true), answer).toBe(true);
    }
    expect(same('(B)', 'B')).toBe(false);
    for (const answer of ['Because', 'C', 'B because', '']) expect(same(answer, 'B', true), answer).toBe(false);
  });
});

describe('scores of agreement', () => {
  test('no answers and only null answers agree on nothing', () => {
    expect(run('agreement_score', { answers: [] })).toEqual({ score: 0, majority: null });
    expect(run('agreement_score', { answers: [null, null] })).toEqual({ score: 0, majority: null });
  });

  test('the first seen wins a tie, and null never wins', () => {
    expect(run('agreement_score', { answers: [null, null, 'b', 'a'] })).toEqual({ score: 0.25, majority: 'b' });
  });
});

describe('the M500 composite', () => {
  const trace = { id: 1, answer_tokens: 1025, consensus: true, format: true, correct: true };

  test('a trace without the interdisciplinary mark passes only where none is required', () => {
    expect(run('m500_filter', { traces: [trace] })).toEqual([]);
    expect(run('m500_filter', { traces: [trace], require_interdisciplinary: false })).toEqual([1]);
  });
});
