import { describe, expect, test } from 'vitest';
import type { Method } from '../../store/evaluate/methods/method.ts';
import { methodParams } from '../../store/evaluate/methods/run.ts';
import { LOSS_METHODS } from '../../trainer/model/losses/catalogue.ts';
import { expectClose } from '../store/methods/close.ts';
import { runLoss } from './losses-graph.ts';

/** Worked examples: one input with data and parameters together, and what must come out, to 1e-6. */
const EXAMPLES: readonly { readonly name: string; readonly input: unknown; readonly expected: unknown }[] = [
  {
    name: 'sft_sequence_mean',
    input: {
      logprobs: [
        [-0.1, -0.3],
        [-1.0, -2.0, -3.0, -2.0],
      ],
    },
    expected: 1.1,
  },
  {
    name: 'sft_token_mean',
    input: {
      logprobs: [
        [-0.1, -0.3],
        [-1.0, -2.0, -3.0, -2.0],
      ],
    },
    expected: 1.4,
  },
  {
    name: 'ordered_batches',
    input: {
      rows: [
        { id: 'a', problem: 'p1', seq: 2 },
        { id: 'b', problem: 'p2', seq: 1 },
        { id: 'c', problem: 'p1', seq: 0 },
        { id: 'd', problem: 'p1', seq: 1 },
      ],
    },
    expected: [['c', 'd', 'a'], ['b']],
  },
  {
    name: 'dpo_loss',
    input: { beta: 0.1, pol_chosen: -10, ref_chosen: -12, pol_rejected: -15, ref_rejected: -14 },
    expected: 0.554355,
  },
  {
    name: 'ppo_clip_loss',
    input: {
      logp: [
        [-1.0, -0.5],
        [-2.0, -0.1],
      ],
      old_logp: [
        [-1.2, -1.0],
        [-1.0, -2.0],
      ],
      advantages: [
        [1.0, 1.0],
        [-1.0, -1.0],
      ],
      mask: [
        [1, 1],
        [1, 1],
      ],
      clip_low: 0.2,
      clip_high: 0.2,
      clip_c: 3.0,
      agg: 'seq-mean-token-mean',
    },
    expected: {
      token: [
        [-1.2, -1.2],
        [0.8, 3.0],
      ],
      loss: 0.35,
    },
  },
  {
    name: 'agg_loss',
    input: {
      loss: [
        [1, 2, 3, 0],
        [4, 0, 0, 0],
      ],
      mask: [
        [1, 1, 1, 0],
        [1, 0, 0, 0],
      ],
      mode: 'seq-mean-token-sum-norm',
    },
    expected: 1.25,
  },
  {
    name: 'turn_ratio_loss',
    input: {
      log_ratio: [0.1, 0.3, -0.2, 0.0, 0.5],
      advantage: [1, 1, 1, 1, 1],
      turn: [0, 0, 1, 1, -100],
      clip_low: 0.2,
      clip_high: 0.2,
    },
    expected: { turn: [-1.2, -0.904837], loss: -1.052419 },
  },
  {
    name: 'kl_estimators',
    input: { logp: -1.0, ref_logp: -1.5 },
    expected: { k1: 0.5, abs: 0.5, k2: 0.125, k3: 0.106531 },
  },
  {
    name: 'value_clip_loss',
    input: { pred: [1.0, 0.2], old: [0.5, 0.1], returns: [1.2, 0.0], clip: 0.2 },
    expected: 0.0725,
  },
];

describe('the losses by name', () => {
  test.each(EXAMPLES)('$name gives what its source gives', ({ name, input, expected }) => {
    const before = JSON.stringify(input);
    expectClose(runLoss(name, input), expected);
    expect(JSON.stringify(input)).toBe(before);
  });

  test('have each one worked example', () => {
    expect(EXAMPLES.map(({ name }) => name).toSorted()).toEqual(LOSS_METHODS.map(({ name }) => name).toSorted());
  });

  test('have a source, a summary, and defaults that pass their own limits', () => {
    for (const method of LOSS_METHODS) {
      expect(method.name).toMatch(/^[a-z][a-z0-9]*(_[a-z0-9]+)*$/);
      expect(method.kind).toBe('loss');
      expect(method.source.length).toBeGreaterThan(3);
      expect(method.summary).toMatch(/\.$/);
      const defaults = method.params as Record<string, unknown>;
      expect(methodParams(method as unknown as Method, defaults)).toEqual(defaults);
      const fields = Object.keys((method.input as { properties: object }).properties);
      expect(Object.keys(defaults).filter((name) => fields.includes(name))).toEqual([]);
    }
  });

  test('give null for a token of a policy loss that is masked, which then counts nowhere', () => {
    const matrix = (x: number) => [
      [0, x],
      [x, 0],
    ];
    const mask = [
      [1, 0],
      [0, 1],
    ];
    const run = (x: number) =>
      runLoss('ppo_clip_loss', {
        logp: matrix(x),
        old_logp: matrix(0),
        advantages: [
          [1, 1],
          [3, 3],
        ],
        mask,
      });
    expect(run(0)).toEqual({
      token: [
        [-1, null],
        [null, -3],
      ],
      loss: -2,
    });
    expect(run(-7)).toEqual(run(0));
  });

  const pair = { pol_chosen: 0, ref_chosen: 0, pol_rejected: 0, ref_rejected: 0 };
  const clip = { logp: [[0, 0]], old_logp: [[0, 0]], advantages: [[1, 1]], mask: [[1, 1]] };
  test.each<[string, unknown, string]>([
    ['sft_sequence_mean', { logprobs: [] }, 'logprobs'],
    ['sft_token_mean', { logprobs: [[-1, -2]], mask: [[0, 0]] }, 'logprobs'],
    ['sft_token_mean', { logprobs: [[-1, -2]], mask: [[1]] }, 'mask[0]'],
    ['sft_token_mean', { logprobs: [[-1, null]] }, 'logprobs[0][1]'],
    ['sft_sequence_mean', { logprobs: [[Number.NaN]] }, 'logprobs[0][0]'],
    ['ordered_batches', { rows: [{ id: 1, problem: 2 }] }, 'rows[0]'],
    ['dpo_loss', { ...pair, pol_chosen: Number.POSITIVE_INFINITY }, 'pol_chosen'],
    ['dpo_loss', { ...pair, beta: 0 }, 'beta'],
    ['dpo_loss', { ...pair, label_smoothing: 0.6 }, 'label_smoothing'],
    ['ppo_clip_loss', { ...clip, mask: [[0, 0]] }, 'mask'],
    ['ppo_clip_loss', { ...clip, old_logp: [[0]] }, 'old_logp[0]'],
    ['ppo_clip_loss', { ...clip, advantages: [] }, 'advantages'],
    ['ppo_clip_loss', { ...clip, clip_c: 1 }, 'clip_c'],
    ['ppo_clip_loss', { ...clip, agg: 'mean' }, 'agg'],
    ['agg_loss', { loss: [[1]], mask: [[1], [1]] }, 'mask'],
    ['agg_loss', { loss: [[1]], mask: [[1]], norm: 0 }, 'norm'],
    ['turn_ratio_loss', { log_ratio: [0], advantage: [1], turn: [-100] }, 'turn'],
    ['turn_ratio_loss', { log_ratio: [0], advantage: [1, 1], turn: [0] }, 'advantage'],
    ['turn_ratio_loss', { log_ratio: [0], advantage: [1], turn: [0.5] }, 'turn[0]'],
    ['kl_estimators', { logp: 0 }, 'input'],
    ['value_clip_loss', { pred: [], old: [], returns: [] }, 'pred'],
    ['value_clip_loss', { pred: [1], old: [1], returns: [1], mask: [2] }, 'mask[0]'],
  ])('%s refuses bad input and names the field: %j', (name, input, field) => {
    expect(() => runLoss(name, input)).toThrow(
      expect.objectContaining({ code: 'method_input', detail: expect.objectContaining({ field }) }),
    );
  });
});
