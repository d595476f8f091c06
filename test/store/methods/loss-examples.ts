import type { Example } from './examples.ts';

/** Worked examples of the losses, as they are run by name; what must come out, to 1e-6. */
export const LOSS_EXAMPLES: readonly Example[] = [
  {
    method: 'sft_sequence_mean',
    input: {
      logprobs: [
        [-0.1, -0.3],
        [-1, -2, -3, -2],
      ],
    },
    expected: 1.1,
  },
  {
    method: 'sft_token_mean',
    input: {
      logprobs: [
        [-0.1, -0.3],
        [-1, -2, -3, -2],
      ],
    },
    expected: 1.4,
  },
  {
    method: 'ordered_batches',
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
    method: 'dpo_loss',
    input: { beta: 0.1, pol_chosen: -10, ref_chosen: -12, pol_rejected: -15, ref_rejected: -14 },
    expected: 0.554355,
  },
  {
    method: 'ppo_clip_loss',
    input: {
      logp: [
        [-1, -0.5],
        [-2, -0.1],
      ],
      old_logp: [
        [-1.2, -1],
        [-1, -2],
      ],
      advantages: [
        [1, 1],
        [-1, -1],
      ],
      mask: [
        [1, 1],
        [1, 1],
      ],
      clip_low: 0.2,
      clip_high: 0.2,
      clip_c: 3,
      agg: 'seq-mean-token-mean',
    },
    expected: {
      token: [
        [-1.2, -1.2],
        [0.8, 3],
      ],
      loss: 0.35,
    },
  },
  {
    method: 'agg_loss',
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
    method: 'turn_ratio_loss',
    input: {
      log_ratio: [0.1, 0.3, -0.2, 0, 0.5],
      advantage: [1, 1, 1, 1, 1],
      turn: [0, 0, 1, 1, -100],
      clip_low: 0.2,
      clip_high: 0.2,
    },
    expected: { turn: [-1.2, -0.904837], loss: -1.052419 },
  },
  {
    method: 'kl_estimators',
    input: { logp: -1, ref_logp: -1.5 },
    expected: { k1: 0.5, abs: 0.5, k2: 0.125, k3: 0.106531 },
  },
  {
    method: 'value_clip_loss',
    input: { pred: [1, 0.2], old: [0.5, 0.1], returns: [1.2, 0], clip: 0.2 },
    expected: 0.0725,
  },
];
