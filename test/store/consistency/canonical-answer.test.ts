import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { canonicalAnswer } from '../../../store/evaluate/consistency/canonical-answer.ts';
import { normalised, sameAnswer } from '../../../store/evaluate/methods/answer.ts';
import { lastBox } from '../../../store/evaluate/methods/boxed.ts';
import { expectBelow } from '../../support/measured.ts';

const plain = (text: string) => canonicalAnswer(text, { choices: false });
const chosen = (text: string) => canonicalAnswer(text, { choices: true });

describe('The canonical form of an answer', () => {
  it.each([
    [
      [
        '42',
        ' $42$. ',
        '42.0',
        '+42',
        '84/2',
        '\\boxed{42}',
        'so \\boxed{1}, no, \\boxed{$42$}',
        '\\boxed{\\text{42}}',
      ],
    ],
    [['0.5', '1/2', '1 / 2', '.5', '\\frac{1}{2}', '\\dfrac{1}{2}', '\\frac12', '\\boxed{\\tfrac{2}{4}}', '0.50.']],
    [['-1.5', '-3/2', '-\\frac{3}{2}', '\\frac{-3}{2}', '-1 1/2', '-1\\frac{1}{2}']],
    [['1234567', '1,234,567', '1,234,567.0', '1{,}234{,}567']],
    [['0.333333333', '1/3', '0.33333333333333333']],
    [['0', '-0', '0.0', '0/7', '-0.0000000001']],
    [['50%', '50 %', '50.0\\%', '100/2%']],
  ])('is one for %j', (answers) => {
    expect(new Set(answers.map(plain)).size).toBe(1);
  });

  it.each([
    [['1,234', '1234', '1.234', '1,23', '12,34,567']],
    [['50%', '50', '0.5']],
    [['1e3', '1000', '1/0', '10^3']],
    [['B', 'b', '(B)', 'B.)']],
    [['1 3/2', '2.5', '1 1/2/3']],
    [['1e+21', '1000000000000000000000']],
    [['0.000000001', '1e-9', '0']],
    [['the answer is 7', '7']],
    [['9007199254740993', '9007199254740994']],
  ])('is not one for any two of %j', (answers) => {
    expect(new Set(answers.map(plain)).size).toBe(answers.length);
  });

  it('of a multiple choice is the letter', () => {
    for (const text of ['B', 'b', '(B)', 'B.', 'b) because', '(B) 42', '\\boxed{B}', '\\boxed{\\text{(B)}}'])
      expect([text, chosen(text)]).toEqual([text, 'B']);
    expect(chosen('so \\boxed{\\textbf{The answer is (B)}}')).toBe('B');
    expect(chosen('\\boxed{Correct option: b}')).toBe('B');
    expect(chosen('42.0')).toBe('42');
  });

  it('reads no letter out of a sentence: it may go on to say something else', () => {
    expect(chosen('The answer is (B)')).toBe('The answer is (B)');
    expect(chosen('\\boxed{the answer is a number}')).toBe('the answer is a number');
  });

  it('is null where nothing is left, and the text where a box never closes', () => {
    expect([plain(''), plain(' $. '), plain('\\boxed{}'), plain('\\boxed{ }')]).toEqual([null, null, null, null]);
    expect(plain('\\boxed{4')).toBe('\\boxed{4');
  });

  it('is found in time linear in the text', () => {
    for (const text of [
      '1'.repeat(200_000),
      '1,'.repeat(100_000),
      '\\boxed{'.repeat(30_000),
      `${' '.repeat(200_000)}%`,
    ]) {
      const start = performance.now();
      plain(text);
      chosen(text);
      expectBelow(performance.now() - start, 2000);
    }
  });
});

describe('Canonical forms and the correctness filter', () => {
  const digits = fc.integer({ min: -99_999, max: 99_999 });
  const number = fc.oneof(
    digits.map(String),
    fc.tuple(digits, fc.integer({ min: 0, max: 4 })).map(([n, places]) => (n / 10 ** places).toFixed(places)),
    fc.tuple(digits, fc.integer({ min: 1, max: 9999 })).map(([a, b]) => `${a}/${b}`),
    fc.tuple(fc.integer({ min: -9, max: 9 }), fc.integer({ min: 1, max: 9 })).map(([a, b]) => `${a} / ${b}`),
  );
  const letter = fc.constantFrom('A', 'b', '(A)', '(b)', 'B.', 'a)', 'A. because', '(B) 7', 'B) it is');
  const answer = fc.oneof(
    number,
    letter,
    fc.constantFrom('x', 'x ', '$x$', 'x.', 'two words', 'two  words', '', '%'),
    fc.string({ maxLength: 6 }),
  );
  const dressed = fc.tuple(answer, fc.constantFrom('', '$', '.', ' ')).map(([text, more]) => `${more}${text}${more}`);
  const boxed = fc.oneof(
    dressed,
    dressed.map((text) => `so \\boxed{${text}}`),
  );
  const inside = (text: string) => normalised(lastBox(text) ?? text);

  it('what it calls the same has one form: texts, letters, and numbers far enough apart to differ', () => {
    let same = 0;
    fc.assert(
      fc.property(boxed, boxed, fc.boolean(), (a, b, choices) => {
        if (!sameAnswer(inside(a), inside(b), choices)) return;
        same++;
        expect(canonicalAnswer(a, { choices })).toBe(canonicalAnswer(b, { choices }));
      }),
      { numRuns: 20_000 },
    );
    expect(same).toBeGreaterThan(100);
  });

  it('numbers of one form are the same to it, however near they are', () => {
    let same = 0;
    const close = fc
      .tuple(fc.integer({ min: 0, max: 2 }), fc.integer({ min: 0, max: 9999 }))
      .map(([n, tail]) => `${n}.00000000${String(tail).padStart(4, '0')}`);
    fc.assert(
      fc.property(fc.oneof(number, close), close, (a, b) => {
        if (plain(a) !== plain(b)) return;
        same++;
        expect(sameAnswer(normalised(a), normalised(b), false)).toBe(true);
      }),
      { numRuns: 20_000 },
    );
    expect(same).toBeGreaterThan(100);
  });

  it('within 1e-9 is no equivalence: of 0, 8e-10 and 1.6e-9, the same by pairs, only two have one form', () => {
    const [a, b, c] = ['0', '0.0000000008', '0.0000000016'] as const;
    expect([sameAnswer(a, b, false), sameAnswer(b, c, false), sameAnswer(a, c, false)]).toEqual([true, true, false]);
    expect([plain(a), plain(b), plain(c)]).toEqual(['0', '0.000000001', '0.000000002']);
  });
});
