import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { instruct, isTwisted, SPECIAL_TOKENS, WORDS } from '../../../examples/coder-verifier/language.ts';
import { MODEL_SPEC } from '../../../examples/coder-verifier/model-spec.ts';
import {
  BASE,
  LENGTH,
  OPERATION_NAMES,
  type Operation,
  type Program,
  run,
} from '../../../examples/coder-verifier/operations.ts';
import { parseProgram, writeProgram } from '../../../examples/coder-verifier/program.ts';
import {
  CODER_TOKENS,
  coderPrompt,
  VERIFIER_TOKENS,
  verifierPrompt,
} from '../../../examples/coder-verifier/prompts.ts';
import { parseTrace, type TraceStep, writeTrace } from '../../../examples/coder-verifier/trace.ts';
import { createRandom } from '../../../examples/lib/random.ts';
import { answerRow } from '../../../trainer/learn/data/training-rows.ts';
import { chatTemplate } from '../../../trainer/model/tokens/template.ts';
import { openTokenizer, wordTokenizer } from '../../../trainer/model/tokens/tokenizer.ts';

const operation = fc.constantFrom<Operation[]>(...OPERATION_NAMES);
const program = fc.array(operation, { minLength: 1, maxLength: 3 });
const digit = fc.integer({ min: 0, max: BASE - 1 });
const list = fc.array(digit, { maxLength: LENGTH });
const input = fc.array(digit, { minLength: LENGTH, maxLength: LENGTH });
const step: fc.Arbitrary<TraceStep> = fc.record({ operation, after: list });

const tokenizer = openTokenizer(
  wordTokenizer(MODEL_SPEC.words, MODEL_SPEC.special_tokens, {
    eos: MODEL_SPEC.eos_token,
    pad: MODEL_SPEC.pad_token,
  }),
);
const template = chatTemplate(MODEL_SPEC.chat_template, tokenizer);

describe('the operations', () => {
  it.each([
    ['rev', [3, 4, 0], [0, 4, 3]],
    ['asc', [3, 4, 0], [0, 3, 4]],
    ['desc', [3, 4, 0], [4, 3, 0]],
    ['tail', [3, 4, 0], [4, 0]],
    ['tail', [], []],
    ['init', [3, 4, 0], [3, 4]],
    ['rotl', [3, 4, 0], [4, 0, 3]],
    ['rotr', [3, 4, 0], [0, 3, 4]],
    ['rotr', [], []],
    ['neg', [3, 4, 0], [2, 1, 5]],
    ['inc', [3, 5, 0], [4, 0, 1]],
    ['dec', [3, 5, 0], [2, 4, 5]],
    ['even', [3, 4, 0], [4, 0]],
    ['odd', [3, 4, 0], [3]],
  ] as const)('%s turns %j into %j', (name, before, after) => {
    expect(run([name], before)).toEqual(after);
  });

  it('run in the order of the program', () => {
    expect(run(['asc', 'neg', 'odd'], [3, 4, 0])).toEqual([5, 1]);
  });
});

describe('the sentence of a program', () => {
  it('needs 95 tokens, special ones included', () => {
    expect(SPECIAL_TOKENS.length + WORDS.length).toBe(95);
    expect(new Set([...SPECIAL_TOKENS, ...WORDS]).size).toBe(95);
  });

  it('uses only words of the vocabulary, and at most 17 of them', () => {
    const words = new Set(WORDS);
    let longest = 0;
    fc.assert(
      fc.property(program, fc.integer(), (operations, seed) => {
        const sentence = instruct(operations, createRandom(seed)).sentence.split(' ');
        longest = Math.max(longest, sentence.length);
        return sentence.every((word) => words.has(word));
      }),
      { numRuns: 3000 },
    );
    expect(longest).toBeGreaterThan(12);
    expect(longest).toBeLessThanOrEqual(17);
  });

  it.each<readonly [Program, RegExp, number]>([
    [['even'], /never/, 0],
    [['even', 'rev'], / after you | ahead of that$|^before you /, 3],
    [['even', 'rev', 'neg'], / after you | in between$|^before you |^finally /, 4],
  ])('is twisted for %j exactly in the sentences like %s', (operations, twisted, templates) => {
    const orders = new Set<string>();
    for (let seed = 0; seed < 200; seed++) {
      const instruction = instruct(operations, createRandom(seed));
      expect(isTwisted(instruction)).toBe(twisted.test(instruction.sentence));
      if (isTwisted(instruction)) orders.add(twisted.exec(instruction.sentence)![0]);
    }
    expect(orders.size).toBe(templates);
  });

  it('is read back as it was written: programs', () => {
    fc.assert(
      fc.property(program, (operations) => {
        expect(parseProgram(writeProgram(operations))).toEqual(operations);
      }),
    );
  });

  it.each(['', '#asc #neg #odd #rev', '3 #asc', 'asc', '#nothing', '#asc  #neg', '#asc _', '<end>', '#toString'])(
    'refuses %j as a program',
    (text) => expect(parseProgram(text)).toBeNull(),
  );

  it('is read back as it was written: workings, which hold exactly when every list follows from the one before', () => {
    fc.assert(
      fc.property(input, fc.array(step, { minLength: 1, maxLength: 3 }), fc.boolean(), (given, drawn, honest) => {
        let before: readonly number[] = given;
        const steps = drawn.map(({ operation: name, after }) => {
          before = honest ? run([name], before) : after;
          return { operation: name, after: before };
        });
        const follows = steps.every(({ operation: name, after }, i) => {
          const from = i === 0 ? given : steps[i - 1]!.after;
          return JSON.stringify(run([name], from)) === JSON.stringify(after);
        });
        const read = parseTrace(given, writeTrace(steps));
        expect(read).toEqual({
          input: given,
          steps,
          plan: steps.map(({ operation: name }) => name),
          expected: steps.at(-1)!.after,
          holds: follows,
        });
        if (honest) expect(read?.holds).toBe(true);
      }),
    );
  });

  it.each([
    '',
    '#asc',
    '#asc 0 3',
    '#asc 0 3 4 5',
    '#asc 0 _ 4',
    '#asc 0 3 6',
    '#asc 0 3 #neg',
    'asc 0 3 4',
    '0 3 4 #asc',
    '#asc 0 3 4 #asc 0 3 4 #asc 0 3 4 #asc 0 3 4',
  ])('refuses %j as a working', (text) => expect(parseTrace([3, 4, 0], text)).toBeNull());
});

describe('the model', () => {
  it('has 408,064 parameters', () => {
    const { vocab_size, hidden_size, intermediate_size, num_hidden_layers } = MODEL_SPEC.config;
    const layer = 4 * hidden_size ** 2 + 3 * hidden_size * intermediate_size + 2 * hidden_size;
    expect(vocab_size * hidden_size + num_hidden_layers * layer + hidden_size).toBe(408_064);
  });

  it('reads the sentence, who shall answer and the drawn input, one token a word', () => {
    const sentence = 'order it rising then throw out even items but count down from five in between';
    expect(tokenizer.decode(template.promptIds(coderPrompt(sentence)))).toBe(`${sentence} <coder>`);
    const verifier = template.promptIds(verifierPrompt(sentence, [3, 4, 0]));
    expect(tokenizer.decode(verifier)).toBe(`${sentence} <verifier> 3 4 0`);
    expect(verifier).toHaveLength(15 + 4);
  });

  it('answers in as many tokens as it is given at most', () => {
    const reply = (prompt: Parameters<typeof template.promptIds>[0], content: string) =>
      answerRow([...prompt, { role: 'assistant', content }], template).tokenIds;
    const program = reply(coderPrompt('reverse it'), '#asc #neg #odd');
    expect(tokenizer.decode(program)).toBe('#asc #neg #odd <end>');
    expect(program).toHaveLength(CODER_TOKENS);
    const working = reply(verifierPrompt('reverse it', [3, 4, 0]), '#asc 0 3 4 #neg 5 2 1 #odd 5 1 _');
    expect(tokenizer.decode(working)).toBe('#asc 0 3 4 #neg 5 2 1 #odd 5 1 _ <end>');
    expect(working).toHaveLength(VERIFIER_TOKENS);
  });
});
