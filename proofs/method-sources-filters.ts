/** The published code of filters and the scores they rank by, and the inputs they are compared on. */
import type { Draw } from './draw.ts';
import { DOUBLE, type MethodSource } from './method-source.ts';

const petting = { project: 'pettingllms-ai/PettingLLMs', tolerance: DOUBLE } as const;
const PETTING_TRAINER = 'pettingllms/trainer/multi_agents_ppo_trainer.py';
const rstar = { project: 'microsoft/rStar', tolerance: DOUBLE } as const;
const ROC = 'rstar2_agent/down_sample/roc.py';
const MAS_TTS_PARSER = 'agentverse/output_parser/output_parser.py';

const grouped = (draw: Draw) => {
  const group = draw.groups(6);
  return { group, reward: draw.rewards(group.length) };
};

const spread = (draw: Draw) => {
  const group = draw.groups(6);
  const reward = draw.chance(0.3) ? group.map(() => 1) : group.map(() => draw.uniform(-2, 2));
  return { group, reward };
};

const CRITICISM = ['[Agree]', '[Disagree]', ' ', '\n', '\n\n', 'sign error', '[agree]', 'Thought:', '\t'];
const criticism = (draw: Draw) => draw.list(draw.integer(0, 5), () => draw.one(CRITICISM)).join('');

export const FILTERS: readonly MethodSource[] = [
  {
    ...petting,
    method: 'petting_group_filter',
    published: 'petting_filter',
    files: [PETTING_TRAINER],
    // With a ratio of 0 the released dapo collects no rewards and drops nothing. Of groups whose spreads differ by rounding alone
    // either may come first, so rewards are such that they are equal or far apart.
    draw: (draw) => ({
      ...spread(draw),
      mode: draw.one(['dapo', 'std', 'mean', 'uid']),
      filter_ratio: draw.one([0.1, 0.25, 0.5, 0.9, 1]),
    }),
  },
  {
    ...petting,
    method: 'range_normalized_variance',
    published: 'range_normalized_variance',
    files: [PETTING_TRAINER],
    draw: (draw) => ({ rewards: draw.rewards(draw.integer(1, 20)) }),
  },
  {
    ...rstar,
    method: 'reject_equal_reward',
    published: 'reject_equal_reward',
    files: ['rstar2_agent/down_sample/reject_sampling.py'],
    draw: (draw) => {
      const { group, reward } = grouped(draw);
      // About as far apart as counts as equal.
      const near = draw.chance(0.3);
      return { group, reward: near ? group.map(() => 0.5 + draw.uniform(-1, 1) * 1e-5) : reward };
    },
  },
  {
    ...rstar,
    method: 'roc_select',
    published: 'roc_select',
    files: [ROC],
    draw: (draw) => {
      const n = draw.one([2, 4, 8, 16, 3, 5]);
      const rewards = draw.rewards(draw.integer(1, 3 * n));
      const [min_zero, min_nonzero] = [draw.integer(0, n >> 1), draw.integer(0, n >> 1)];
      return { rewards, penalties: rewards.map(() => draw.integer(0, 6) / 4), n, min_zero, min_nonzero };
    },
    // Theirs is a mask of the batch.
    compared: (rows: readonly number[]) => [...rows].sort((a, b) => a - b),
  },
  {
    ...rstar,
    method: 'roc_tool_penalty',
    published: 'roc_tool_penalty',
    files: [ROC],
    draw: (draw) => {
      const response = () => draw.one(['42', 'NameError: x', 'ERROR', 'err or', 'ok\nerror', '']);
      return { tool_responses: draw.list(draw.integer(0, 9), response) };
    },
  },
  {
    ...rstar,
    method: 'roc_format_penalty',
    published: 'roc_format_penalty',
    files: [ROC],
    draw: (draw) => {
      const closed_pairs = draw.integer(0, 5);
      const more = () => closed_pairs + draw.one([0, 0, 0, 1]);
      return { open_tags: more(), close_tags: more(), closed_pairs, turns: draw.integer(0, 6) };
    },
  },
  {
    method: 'critic_agrees',
    project: 'jincan333/MAS-TTS',
    files: [MAS_TTS_PARSER],
    published: 'critic_agrees',
    tolerance: 0,
    draw: (draw) => ({ text: criticism(draw) }),
  },
  {
    method: 'consensus_filter',
    project: 'jincan333/MAS-TTS',
    files: ['agentverse/environments/tasksolving_env/rules/decision_maker/vertical_solver_first.py', MAS_TTS_PARSER],
    published: 'consensus_filter',
    tolerance: 0,
    draw: (draw) => {
      const critics = draw.integer(1, 4);
      const response = () => {
        const content = criticism(draw);
        return { agree: content.includes('[Agree]'), content };
      };
      const rounds = draw.list(draw.integer(1, 5), () => draw.list(critics, response));
      return { rounds, max_critic_iterations: draw.integer(1, 4) };
    },
  },
];
