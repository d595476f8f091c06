import { describe, expect, it } from 'vitest';
import { fileOrder } from '../../trainer/learn/data/orders.ts';
import { candidatePairs, cutPair, preferenceLine } from '../../trainer/learn/data/preference-rows.ts';
import { readLines } from '../../trainer/learn/data/training-files.ts';
import { type PreferenceRow, preference, preferenceBatch, referenceScores } from '../../trainer/learn/preference.ts';
import { closeTrainable, trainable } from '../../trainer/learn/step.ts';
import { ADAM } from '../../trainer/learn/training-loop.ts';
import { initialWeights } from '../../trainer/model/parameters.ts';
import { chatTemplate } from '../../trainer/model/tokens/template.ts';
import { openTokenizer } from '../../trainer/model/tokens/tokenizer.ts';
import { tinyConfig, tinyTemplate, tinyTokenizer } from './tiny-checkpoint.ts';
import { TINY } from './tiny-model.ts';

const answer = (...tokenIds: number[]) => ({ tokenIds, trained: tokenIds.map(() => true) });
const pairs: PreferenceRow[] = [
  { promptIds: [1, 2], chosen: answer(3, 4, 5), rejected: answer(6, 7) },
  { promptIds: [8], chosen: answer(9), rejected: answer(10, 11, 12, 13) },
  { promptIds: [14, 15, 16], chosen: answer(17, 18), rejected: answer(17, 19) },
];

describe('learning from preferences', () => {
  it('begins at ln 2, since the model is its own reference, and raises the chosen over the rejected answers', async () => {
    const model = trainable(TINY, initialWeights(TINY, 2));
    const before = await referenceScores(model, pairs);
    const { curves } = await preference(model, pairs, {
      steps: 15,
      order: fileOrder(pairs.length, { batch: 3 }),
      beta: 0.1,
      labelSmoothing: 0,
      schedule: () => 0.003,
      adam: ADAM,
      reference: before,
      heldOut: { rows: pairs, reference: before },
    });
    const after = await referenceScores(model, pairs);
    await closeTrainable(model);
    expect(curves.loss[0]).toBeCloseTo(Math.LN2, 5);
    expect(curves.loss.at(-1)).toBeLessThan(0.6);
    expect(curves.metrics.accuracy!.at(-1)).toBe(1);
    expect(curves.heldOut.at(-1)!.loss).toBeLessThan(curves.loss.at(-1)!);
    for (const [i, [chosen, rejected]] of after.entries()) {
      expect(chosen - rejected).toBeGreaterThan(before[i]![0] - before[i]![1]);
    }
  });

  it('multiplies the loss of a pair by its weight', () => {
    const batch = preferenceBatch(
      [pairs[0]!, { ...pairs[1]!, weight: 3 }],
      [
        [0, 0],
        [0, 0],
      ],
    );
    expect(batch.map(({ segmentWeights }) => segmentWeights)).toEqual([[1 / 2], [3 / 2]]);
    expect(cutPair({ ...pairs[1]!, weight: 3 }, 3)).toMatchObject({ weight: 3 });
  });

  it('scores an answer by the sum of its trained tokens under the model', async () => {
    const model = trainable(TINY, initialWeights(TINY, 2));
    const masked = { promptIds: [1], chosen: { tokenIds: [2, 3], trained: [true, false] }, rejected: answer(2) };
    const [[chosen, rejected]] = (await referenceScores(model, [masked])) as [[number, number]];
    await closeTrainable(model);
    expect(chosen).toBeCloseTo(rejected, 5);
    expect(chosen).toBeLessThan(0);
  });
});

describe('pairs', () => {
  const tokenizer = openTokenizer(tinyTokenizer);
  const model = { tokenizer, template: chatTemplate(tinyTemplate, tokenizer), eosIds: [1], config: tinyConfig };
  const line = (value: unknown) => preferenceLine(value, model);
  const words = ({ promptIds, chosen, rejected }: PreferenceRow) =>
    [promptIds, chosen.tokenIds, rejected.tokenIds].map((ids) => tokenizer.decode(ids));

  it('come as text, as messages, with the prompt repeated, and as OpenAI writes them', () => {
    expect(words(line({ prompt: 'one', chosen: 'two', rejected: 'three' }))).toEqual([
      'one',
      'two <end>',
      'three <end>',
    ]);
    const asked = [{ role: 'user', content: 'one' }];
    const [good, bad] = ['two', 'three'].map((content) => ({ role: 'assistant', content }));
    const texts = ['<bos> user one <end> assistant', 'two <end>', 'three <end>'];
    expect(words(line({ prompt: asked, chosen: [good], rejected: [bad] }))).toEqual(texts);
    expect(words(line({ prompt: asked, chosen: [...asked, good], rejected: [...asked, bad] }))).toEqual(texts);
    expect(words(line({ input: { messages: asked }, preferred_output: [good], non_preferred_output: [bad] }))).toEqual(
      texts,
    );
  });

  it('that lack an answer or have the same twice are refused by line', () => {
    const text = ['{"prompt":"one","chosen":"two"}', '{"prompt":"one","chosen":"two","rejected":"two"}'].join('\n');
    const { rows, refused } = readLines(text, line);
    expect(rows).toEqual([]);
    expect(refused.map(({ line: at, field }) => [at, field])).toEqual([
      [1, 'rejected'],
      [2, 'rejected'],
    ]);
  });

  it('are the best and the worst answer to one prompt of a group, by advantage or reward; what is unknown is none', () => {
    const step = (call: string, candidate: number, worth: { advantage?: number; reward?: number }) => ({
      ...{
        episode_id: `e-${candidate}`,
        group_id: call,
        task_id: null,
        call_id: call,
        candidate,
        role: null,
        prompt: null,
      },
      ...{ prompt_token_ids: [1], token_ids: [2 + candidate], logprobs: null, loss_mask: null, text: null },
      advantage: worth.advantage ?? null,
      reward: worth.reward ?? null,
    });
    const found = candidatePairs(
      [
        step('a', 0, { reward: 0 }),
        step('a', 1, { reward: 1 }),
        step('a', 2, {}),
        step('a', 3, { reward: -1 }),
        step('b', 0, { advantage: 0.5 }),
        step('b', 1, { advantage: 0.5 }),
        step('c', 0, { reward: 1 }),
      ],
      {} as never,
    );
    expect(found.map(({ chosen, rejected }) => [chosen.tokenIds, rejected.tokenIds])).toEqual([[[3], [5]]]);
  });

  it('are cut to a length, and dropped where an answer has nothing left', () => {
    expect(cutPair(pairs[1]!, 3)!.rejected.tokenIds).toEqual([10, 11]);
    expect(cutPair(pairs[2]!, 3)).toBeNull();
  });
});
