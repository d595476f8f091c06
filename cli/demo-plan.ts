/** The numbers of the demo: how many steps, how large, how fast. */

export const POLICY = 'team';
export const ITERATIONS = 30;

/** What each stage of the plan asks for: see docs/demo.md for where each number comes from. */
export const PLAN = {
  warm: {
    steps: { coder: 150, verifier: 220 },
    batch: 64,
    learning_rate: 2e-3,
    warmup: 20,
    entropy: 0,
    reset_optimizer: true,
  },
  own: {
    steps: { coder: 90, verifier: 120 },
    batch: 64,
    learning_rate: 1.5e-3,
    warmup: 20,
    entropy: 0.03,
    reset_optimizer: true,
  },
  rl: {
    roles: [
      { role: 'coder', groups: 32, learning_rate: 1e-3, entropy: 0.06 },
      { role: 'verifier', groups: 64, learning_rate: 5e-4, entropy: 0.04 },
    ],
    clip_low: 0.2,
    clip_high: 0.28,
    warmup: 15,
  },
  lessons: [{ method: 'well_formed_filter' }, { method: 'public_tests_filter' }, { method: 'majority_filter' }],
  successes: [{ method: 'own_success_filter' }],
  trust: 0.1,
} as const;
