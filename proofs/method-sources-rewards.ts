/** The published code of rewards, and the inputs they are compared on. */
import { cureTestReward } from '../store/evaluate/methods/cure.ts';
import { tokenF1 } from '../store/evaluate/methods/mmoa-rag.ts';
import type { Draw } from './draw.ts';
import { DOUBLE, type MethodSource, SINGLE } from './method-source.ts';

const petting = { project: 'pettingllms-ai/PettingLLMs', tolerance: DOUBLE } as const;
const cure = { project: 'Gen-Verse/CURE', files: ['optimization/reward.py'], tolerance: DOUBLE } as const;
const mmoa = {
  project: 'chenyiqun/MMOA-RAG',
  files: ['LLaMA-Factory/src/llamafactory/train/ppo/trainer_qr_s_g.py'],
  tolerance: DOUBLE,
} as const;
const STAR = 'verl/experimental/star_ppo';
const unitymas = (allocator: string) =>
  ({
    project: 'chenyiqun/UnityMAS-O',
    files: ['base.py', allocator]
      .map((file) => `${STAR}/reward_allocators/${file}`)
      .concat(`${STAR}/workflows/schema.py`),
    tolerance: DOUBLE,
  }) as const;

/** Execution matrices of up to 8 programs; now and then none or all of them are right. */
const executions = (draw: Draw) => {
  const [programs, truths, tests] = [draw.integer(1, 8), draw.integer(1, 4), draw.integer(1, 6)];
  const [gt_pass, generated_pass] = [truths, tests].map((width) => draw.list(programs, () => draw.bits(width)));
  return { gt_pass: gt_pass!, generated_pass: generated_pass! };
};
/** Theirs divides what rounding leaves of the mean of equal shares such as 0.8 by itself; ours knows that they are equal. */
const roundedToNothing = (matrices: ReturnType<typeof executions>) => {
  const raw = cureTestReward.run(matrices, { post_stage: false, efficient: false })?.raw ?? [];
  return raw.every((share) => share === raw[0]) && raw.some((share) => !Number.isInteger(8 * share));
};
const WORDS = ['new', 'york', 'city', 'paris', 'of', '1999', 'é'];
const phrase = (draw: Draw, most: number) => draw.list(draw.integer(0, most), () => draw.one(WORDS)).join(' ');

type Answers = { readonly plan: string; readonly answers: readonly string[]; readonly truth: string };
const f1 = (pred: string, gold: string) => tokenF1.run({ pred, gold }, {});

export const REWARDS: readonly MethodSource[] = [
  {
    ...petting,
    method: 'petting_turn_reward',
    published: 'petting_turn_reward',
    files: ['pettingllms/trainer/core_algo.py'],
    draw: (draw) => {
      const max_turns = draw.integer(1, 9);
      const turns = draw.list(draw.integer(1, 9), () => draw.integer(0, max_turns - 1));
      const mode = draw.one(['turn_weighted', 'discount', 'binary', 'normalized']);
      return {
        final: draw.one([0, 0.5, 1, draw.uniform(-3, 3)]),
        turns,
        mode,
        max_turns,
        gamma: draw.one([0.99, 0.5, 1]),
      };
    },
  },
  {
    ...cure,
    method: 'cure_code_reward',
    published: 'cure_rewards',
    options: ['code'],
    draw: (draw) => ({ ...executions(draw), post_stage: false }),
    ours: ({ gt_pass }: { readonly gt_pass: unknown }) => ({ gt_pass }),
  },
  {
    ...cure,
    method: 'cure_test_reward',
    published: 'cure_rewards',
    options: ['case'],
    draw: (draw) => {
      let matrices = executions(draw);
      while (roundedToNothing(matrices)) matrices = executions(draw);
      return { ...matrices, post_stage: draw.chance(0.5) };
    },
    compared: (output: { readonly reward: unknown } | null) => output?.reward ?? null,
  },
  {
    ...cure,
    method: 'cure_balance',
    published: 'cure_balance',
    draw: (draw) => ({ x: draw.rewards(draw.integer(1, 12)) }),
  },
  {
    ...cure,
    method: 'cure_length_regularize',
    published: 'cure_length_regularize',
    draw: (draw) => {
      const reward = [0.5, ...draw.rewards(draw.integer(0, 11))];
      const length = reward.map(() => draw.one([1000, draw.integer(1, 12000)]));
      return { reward, length, min_len: draw.one([1000, 1]), max_len: draw.one([8000, 4000]) };
    },
  },
  {
    ...cure,
    method: 'bon_select',
    published: 'bon_select',
    files: ['evaluation/eval.py'],
    draw: (draw) => executions(draw),
    compared: ({ generated_passes: _, ...choice }: { readonly generated_passes: number }) => choice,
  },
  {
    method: 'dapo_overlong',
    project: 'verl',
    files: ['verl/workers/reward_manager/dapo.py'],
    published: 'dapo_overlong',
    tolerance: DOUBLE,
    draw: ({ integer, one }) => {
      const [max_len, buffer] = [integer(100, 20480), integer(1, 4096)];
      return { length: integer(0, max_len), max_len, buffer, factor: one([1, 0.5]) };
    },
  },
  {
    method: 'marti_shaping',
    project: 'TsinghuaC3I/MARTI',
    files: ['marti/verifiers/auto_reward_alloc.py'],
    published: 'marti_shaping',
    tolerance: SINGLE,
    draw: (draw) => ({
      name: draw.one(['quality', 'margin', 'quality_with_outcome', 'margin_with_outcome']),
      rewards: draw.rewards(draw.integer(1, 8)),
      alpha: draw.one([0.5, 0.3]),
      beta: draw.one([0.5, 1]),
    }),
  },
  {
    method: 'mars2_tree_shaping',
    project: 'TsinghuaC3I/MARTI',
    files: ['marti/agent_workflows/ab_mcts_processor.py'],
    published: 'mars2_tree_shaping',
    tolerance: DOUBLE,
    draw: (draw) => {
      const rewards = draw.rewards(draw.integer(1, 15));
      const parent = rewards.map((_, node) => (draw.chance(0.1) ? null : draw.integer(-1, node - 1)));
      return { rewards, parent, gamma: draw.one([0.5, 0.3]), lam: draw.one([0.5, 0, 1]) };
    },
  },
  {
    method: 'rema_reward',
    project: 'ziyuwan/ReMA-public',
    files: ['src/verl/verl/workers/reward_manager/rema.py'],
    published: 'rema_reward',
    tolerance: SINGLE,
    draw: ({ chance, one, uniform }) => ({
      score: one([0, 1, uniform(-1, 1)]),
      finished: { 'meta-thinking': chance(0.7), reasoning: chance(0.7) },
      max_turns: one([1, 1, 30]),
      boxed: chance(0.6),
      mask_unfinished: chance(0.5),
    }),
  },
  {
    ...unitymas('code_turn_level.py'),
    method: 'unitymas_code_rewards',
    published: 'unitymas_code',
    draw: (draw) => ({
      pass_rate: draw.list(draw.integer(0, 6), () => draw.one([0, 1, draw.uniform(-0.2, 1.2)])),
      reflections: draw.integer(0, 7),
    }),
  },
  {
    ...unitymas('mask_turn_level.py'),
    method: 'unitymas_search_rewards',
    published: 'unitymas_search',
    // Theirs scores the answers itself.
    draw: (draw) => ({
      plan: phrase(draw, 4),
      answers: draw.list(draw.integer(1, 6), () => phrase(draw, 4)),
      truth: `${phrase(draw, 3)} paris`.trim(),
    }),
    ours: ({ plan, answers, truth }: Answers) => ({
      plan_f1: f1(plan, truth),
      answer_f1: answers.map((answer) => f1(answer, truth)),
    }),
  },
  {
    ...mmoa,
    method: 'token_f1',
    published: 'token_f1',
    draw: (draw) => ({ pred: phrase(draw, 8), gold: phrase(draw, 5) }),
  },
  {
    ...mmoa,
    method: 'mmoa_rewards',
    published: 'mmoa_rewards',
    draw: (draw) => {
      const ids = draw.list(
        draw.integer(0, 5),
        () => `Document${draw.one(['0', '1', '2', '3', '9', '10', '01', ' 1', ''])}`,
      );
      return {
        f1: draw.uniform(),
        subquestions: draw.list(draw.integer(0, 6), () => 'é'.repeat(draw.integer(0, 110))),
        selector: ids.join(draw.one([',', ',', ', '])),
        k: draw.integer(1, 11),
        answer: phrase(draw, 45),
      };
    },
  },
];
