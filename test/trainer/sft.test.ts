import { describe, expect, it } from 'vitest';
import { fileOrder, shuffledOrder } from '../../trainer/learn/data/orders.ts';
import { readLines, supervisedLine } from '../../trainer/learn/data/training-files.ts';
import { cutRow, maskedRow } from '../../trainer/learn/data/training-rows.ts';
import { roleOrder } from '../../trainer/learn/role-steps.ts';
import { type SftMean, sft, supervisedBatch } from '../../trainer/learn/sft.ts';
import { closeTrainable, trainable } from '../../trainer/learn/step.ts';
import { ADAM } from '../../trainer/learn/training-loop.ts';
import { initialWeights } from '../../trainer/model/parameters.ts';
import { chatTemplate } from '../../trainer/model/tokens/template.ts';
import { openTokenizer } from '../../trainer/model/tokens/tokenizer.ts';
import { tinyConfig, tinyTemplate, tinyTokenizer } from './tiny-checkpoint.ts';
import { TINY } from './tiny-model.ts';

const tokenizer = openTokenizer(tinyTokenizer);
const model = { tokenizer, template: chatTemplate(tinyTemplate, tokenizer), eosIds: [1], config: tinyConfig };
const line = (value: unknown) => supervisedLine(value, model);
const words = (row: { readonly promptIds: readonly number[]; readonly tokenIds: readonly number[] }) => [
  tokenizer.decode(row.promptIds),
  tokenizer.decode(row.tokenIds),
];

describe('rows of a file', () => {
  it('ids without a mask are all learnt but the first', () => {
    expect(line({ input_ids: [3, 4, 5] })).toEqual({ promptIds: [3], tokenIds: [4, 5], trained: [true, true] });
  });

  it('a mask says which ids are learnt; the first never is, and what follows the last is left out', () => {
    expect(line({ input_ids: [3, 4, 5, 6, 7, 8], loss_mask: [1, 0, 1, 0, 1, 0] })).toEqual({
      promptIds: [3, 4],
      tokenIds: [5, 6, 7],
      trained: [true, false, true],
    });
    expect(maskedRow([3, 4], [1, 0])).toBeNull();
  });

  it('of a chat every turn of the assistant is learnt, and none of the others', () => {
    const row = line({
      messages: [
        { role: 'user', content: 'one' },
        { role: 'assistant', content: 'two' },
        { role: 'user', content: 'three' },
        { role: 'assistant', content: 'four' },
      ],
    });
    expect(words(row)).toEqual(['<bos> user one <end> assistant', 'two <end> user three <end> assistant four <end>']);
    expect(row.trained).toEqual([true, true, false, false, false, false, true, true]);
  });

  it('a turn with weight 0 is not learnt', () => {
    const row = line({
      messages: [
        { role: 'user', content: 'one' },
        { role: 'assistant', content: 'two', weight: 0 },
        { role: 'user', content: 'three' },
        { role: 'assistant', content: 'four', weight: 1 },
      ],
    });
    expect(words(row)[1]).toBe('four <end>');
  });

  it('a completion is learnt with the token that ends it', () => {
    expect(words(line({ prompt: 'one two', completion: 'three' }))).toEqual(['one two', 'three <end>']);
    const chat = line({
      prompt: [{ role: 'user', content: 'one' }],
      completion: [{ role: 'assistant', content: 'two' }],
    });
    expect(words(chat)).toEqual(['<bos> user one <end> assistant', 'two <end>']);
  });

  it('a weight of the row is kept, also where the row is cut, and must be above 0', () => {
    const row = line({ input_ids: [3, 4, 5], weight: 2.5 });
    expect(row.weight).toBe(2.5);
    expect(cutRow(row, 2)).toEqual({ promptIds: [3], tokenIds: [4], trained: [true], weight: 2.5 });
    expect(() => line({ input_ids: [3, 4, 5], weight: 0 })).toThrow(/weight should be a number above 0/);
  });

  it('a line that does not fit is refused with its number, field and reason, and the others are kept', () => {
    const text = [
      '{"input_ids":[1,2,3]}',
      'nothing',
      '',
      '{"input_ids":[1,99]}',
      '{"input_ids":[1,2],"loss_mask":[1]}',
      '{"input_ids":[1,2],"loss_mask":[1,0]}',
      '{"messages":[{"role":"user","content":"one"}]}',
      '{"prompt":"one","completion":"zebra"}',
      '{"text":"one"}',
      '[1,2]',
      '{"input_ids":[4,5]}',
    ].join('\n');
    const { rows, refused } = readLines(text, line);
    expect(rows).toHaveLength(2);
    expect(refused.map(({ line: at, field }) => [at, field])).toEqual([
      [2, ''],
      [4, 'input_ids[1]'],
      [5, 'loss_mask'],
      [6, ''],
      [7, 'messages'],
      [8, ''],
      [9, ''],
      [10, ''],
    ]);
    for (const refusal of refused) expect(refusal.expected.length * refusal.got.length).toBeGreaterThan(0);
  });

  it('a model without a template refuses chats as a whole', () => {
    const plain = { ...model, template: null };
    const chat = '{"messages":[{"role":"assistant","content":"one"}]}';
    expect(() => readLines(chat, (value) => supervisedLine(value, plain))).toThrow(/chat template/);
  });

  it('a long row is cut at its end, and dropped where nothing learnt is left', () => {
    const row = maskedRow([1, 2, 3, 4, 5, 6], [0, 0, 1, 1, 1, 1])!;
    expect(cutRow(row, 4)).toEqual({ promptIds: [1, 2], tokenIds: [3, 4], trained: [true, true] });
    expect(cutRow(row, 6)).toBe(row);
    expect(cutRow(row, 2)).toBeNull();
  });
});

const counting = (from: number, length: number) =>
  maskedRow(
    Array.from({ length }, (_, i) => (from + i) % TINY.vocab_size),
    null,
  )!;

describe('supervised fine-tuning', () => {
  it('multiplies the loss of a row by its weight, whatever the other rows weigh', () => {
    const two = [counting(1, 3), { ...counting(2, 5), weight: 3 }];
    const weightsOf = (mean: SftMean) => supervisedBatch(two, mean, 0.5).map(({ completions }) => completions[0]!);
    // Two and four trained tokens: six in all, or two sequences.
    expect(weightsOf('token-mean').map(({ weights }) => weights[0])).toEqual([1 / 6, 3 / 6]);
    expect(weightsOf('sequence-mean').map(({ weights }) => weights[0])).toEqual([1 / 4, 3 / 8]);
    expect(weightsOf('sequence-mean').map(({ entropyWeights }) => entropyWeights![0])).toEqual([1 / 8, 3 / 16]);
  });

  const rows = Array.from({ length: 12 }, (_, i) => counting(i, 4 + (i % 5)));
  const train = async (mean: SftMean, entropy = 0) => {
    const learner = trainable(TINY, initialWeights(TINY, 4));
    const { curves } = await sft(learner, rows, {
      steps: 30,
      order: fileOrder(rows.length, { batch: 6 }),
      mean,
      entropy,
      schedule: () => 0.01,
      adam: ADAM,
    });
    await closeTrainable(learner);
    return curves;
  };

  it('learns what the rows say, by either mean', async () => {
    for (const mean of ['token-mean', 'sequence-mean'] as const) {
      const { loss } = await train(mean);
      expect(loss[0]).toBeGreaterThan(2.5);
      expect(loss.at(-1)).toBeLessThan(0.5);
    }
  });

  it('an entropy bonus shows the entropy and leaves the model less sure', async () => {
    const [sure, open] = [await train('token-mean', 1e-9), await train('token-mean', 0.5)];
    expect(open.metrics.entropy!.at(-1)).toBeGreaterThan(sure.metrics.entropy!.at(-1)!);
  });

  it('weights of a batch sum to one, by tokens or by rows', () => {
    const batch = [counting(0, 3), counting(0, 9)];
    const sums = (mean: SftMean) =>
      supervisedBatch(batch, mean, 0).map((row) => row.completions[0]!.weights.reduce((a, b) => a + b, 0));
    expect(sums('token-mean')[0]).toBeCloseTo(0.2, 12);
    expect(sums('token-mean')[1]).toBeCloseTo(0.8, 12);
    expect(sums('sequence-mean')[0]).toBeCloseTo(0.5, 12);
  });

  it('rows without a token to learn are refused', async () => {
    const learner = trainable(TINY, initialWeights(TINY, 4));
    const empty = [{ promptIds: [1], tokenIds: [2], trained: [false] }];
    const options = {
      steps: 1,
      order: fileOrder(1, { batch: 1 }),
      entropy: 0,
      schedule: () => 0.1,
      adam: ADAM,
    } as const;
    await expect(sft(learner, empty, { ...options, mean: 'token-mean' })).rejects.toMatchObject({
      code: 'training_failed',
    });
    await closeTrainable(learner);
  });
});

describe('role-wise fine-tuning', () => {
  const roles = [...'aaaaabbb'];
  const taken = (asked: Parameters<typeof roleOrder>[1]) => {
    const { steps, order, roleOf, byRole } = roleOrder(roles, asked);
    const all = Array.from({ length: steps }, (_, step) => ({ role: roleOf(step), rows: order(step) }));
    return { all, byRole, of: (role: string) => all.filter((step) => step.role === role).flatMap(({ rows }) => rows) };
  };

  it('gives each role its steps, interleaved, and takes each row once before any again', () => {
    const asked = { steps: { a: 10, b: 6, nobody: 4 }, batch: 2, seed: 9 };
    const { all, byRole, of } = taken(asked);
    expect(byRole).toEqual({ a: 10, b: 6 });
    const order = all.map(({ role }) => role).join('');
    expect([...order].sort().join('')).toBe('aaaaaaaaaabbbbbb');
    expect(order).not.toBe('aaaaaaaaaabbbbbb');
    for (const [role, rows] of [
      ['a', [0, 1, 2, 3, 4]],
      ['b', [5, 6, 7]],
    ] as const) {
      const drawn = of(role);
      for (let from = 0; from + rows.length <= drawn.length; from += rows.length)
        expect(drawn.slice(from, from + rows.length).sort()).toEqual(rows);
    }
    expect(taken(asked).all).toEqual(all);
    expect(() => roleOrder(roles, { ...asked, steps: { nobody: 4 } })).toThrow(/nobody/);
  });

  it('one number of steps is that of each role, and epochs take each row of a role so often', () => {
    expect(taken({ steps: 3, batch: 2, seed: 1 }).byRole).toEqual({ a: 3, b: 3 });
    const { byRole, all } = taken({ epochs: 2, batch: 4, seed: 1 });
    expect(byRole).toEqual({ a: 3, b: 2 });
    expect(all.flatMap(({ rows }) => rows).sort()).toEqual(roles.flatMap((_, row) => [row, row]));
  });

  it('rows of one role are taken in the order that rows without roles have', () => {
    const { order } = roleOrder(['a', 'a', 'a', 'a', 'a'], { steps: 7, batch: 3, seed: 4 });
    const plain = shuffledOrder(5, { batch: 3 }, 4);
    for (let step = 0; step < 7; step++) expect(order(step)).toEqual(plain(step));
  });
});
