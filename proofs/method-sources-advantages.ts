/** The published code of advantages, and the inputs they are compared on. */
import { maskedWhiten } from '../store/evaluate/methods/gae.ts';
import type { Draw } from './draw.ts';
import { DOUBLE, type MethodSource, SINGLE } from './method-source.ts';

const CORE = 'verl/trainer/ppo/core_algos.py';
const TENSORS = 'verl/utils/torch_functional.py';
const verl = { project: 'verl', files: [CORE, TENSORS], tolerance: DOUBLE } as const;
const petting = { project: 'pettingllms-ai/PettingLLMs', tolerance: DOUBLE } as const;
const PETTING_TRAINER = 'pettingllms/trainer/multi_agents_ppo_trainer.py';
const PETTING_CORE = 'verl/verl/trainer/ppo/core_algos.py';
const COMBINED = ['sum_then_normalize', 'normalize_then_sum'];

const normalised = ({ chance }: Draw) => ({ scale_std: chance(0.7), eps: 1e-6 });
const grouped = (draw: Draw, least = 1) => {
  const group = draw.groups(6, [least, 9]);
  return { group, reward: draw.rewards(group.length) };
};
const steps = (draw: Draw) =>
  draw.list(draw.integer(1, 40), () => ({
    query: `q${draw.integer(0, 2)}`,
    traj: `t${draw.integer(0, 4)}`,
    agent: draw.one(['solver', 'verifier', 'planner']),
    reward: draw.chance(0.5) ? draw.integer(0, 1) : draw.uniform(-1, 1),
  }));

type Estimate = { readonly advantages: readonly number[]; readonly returns: readonly number[] };

export const ADVANTAGES: readonly MethodSource[] = [
  { ...verl, method: 'grpo_advantage', published: 'grpo', draw: (draw) => ({ ...grouped(draw), ...normalised(draw) }) },
  {
    ...verl,
    method: 'grpo_advantage',
    published: 'grpo_vectorised',
    files: [CORE, TENSORS, 'verl/utils/groupwise.py'],
    tolerance: SINGLE,
    draw: (draw) => ({ ...grouped(draw), ...normalised(draw) }),
  },
  { ...verl, method: 'rloo_advantage', published: 'rloo', draw: (draw) => grouped(draw) },
  // A group of one is 0 there and its reward in the form above, which ours follows.
  { ...verl, method: 'rloo_advantage', published: 'rloo_vectorised', draw: (draw) => grouped(draw, 2) },
  {
    ...verl,
    method: 'gae',
    published: 'gae',
    draw: (draw) => {
      const tokens = draw.integer(2, 30);
      const numbers = () => draw.list(tokens, () => draw.uniform(-2, 2));
      const mask = [1, 1, ...draw.bits(tokens - 2)].reverse();
      const [gamma, lambda] = [draw.one([1, 0.99, 0.9, 0]), draw.one([1, 0.95, 0.5, 0])];
      return { rewards: draw.rewards(tokens), values: numbers(), mask, gamma, lambda };
    },
    // Theirs gives advantages whitened only.
    compared: ({ advantages, returns }: Estimate, { mask }: { readonly mask: (0 | 1)[] }) => ({
      returns,
      whitened: maskedWhiten.run({ values: [...advantages], mask }, {}),
    }),
  },
  {
    ...verl,
    method: 'masked_whiten',
    published: 'masked_whiten',
    files: [TENSORS],
    tolerance: SINGLE,
    draw: (draw) => {
      const values = draw.rewards(draw.integer(1, 40));
      return { values, mask: draw.bits(values.length) };
    },
  },
  {
    method: 'trl_advantage',
    project: 'trl',
    files: ['trl/trainer/grpo_trainer.py', 'trl/trainer/utils.py'],
    published: 'trl_advantage',
    tolerance: DOUBLE,
    draw: (draw) => {
      const [size, functions] = [draw.integer(1, 8), draw.integer(1, 3)];
      const group = draw.list(draw.integer(1, 6), (at) => draw.list(size, () => at)).flat();
      const lost = draw.one([0, 0, 0.3]);
      const columns = draw.list(functions, () => draw.rewards(group.length));
      const reward = group.map((_, row) => columns.map((column) => (draw.chance(lost) ? null : column[row]!)));
      const ways = { scale: draw.one(['group', 'batch', 'none']), combine: draw.one(COMBINED) };
      return { group, reward, ...ways, weights: draw.one([null, columns.map(() => draw.uniform(-1, 2))]) };
    },
  },
  {
    method: 'magrpo_returns',
    project: 'comlrl',
    files: ['comlrl/trainers/reinforce/magrpo.py'],
    published: 'magrpo_returns',
    tolerance: DOUBLE,
    draw: (draw) => {
      const width = draw.integer(1, 4);
      type Node = { readonly rewards: number[]; readonly children?: Node[] };
      const node = (depth: number): Node => {
        const rewards = draw.rewards(width);
        return depth === 0 || draw.chance(0.2)
          ? { rewards }
          : { rewards, children: rewards.map(() => node(depth - 1)) };
      };
      const mode = draw.one(['mean', 'raw', 'max', 'rloo']);
      return { tree: node(draw.integer(0, 3)), gamma: draw.one([0.9, 1, 0]), mode };
    },
  },
  {
    method: 'magrpo_cross',
    project: 'comlrl',
    files: ['comlrl/trainers/reinforce/magrpo.py'],
    published: 'magrpo_cross',
    tolerance: DOUBLE,
    draw: (draw) => {
      const [k, agents] = [draw.integer(1, 4), draw.integer(1, 3)];
      return { k, agents, rewards: draw.rewards(k ** agents), mode: draw.one(['mean', 'raw', 'max', 'rloo']) };
    },
  },
  {
    method: 'drmas_advantage',
    project: 'langfengQ/DrMAS',
    files: [CORE],
    published: 'drmas',
    options: [true],
    tolerance: DOUBLE,
    draw: (draw) => ({ steps: steps(draw), ...normalised(draw) }),
  },
  {
    method: 'multiagent_grpo_advantage',
    project: 'langfengQ/DrMAS',
    files: [CORE],
    published: 'drmas',
    options: [false],
    tolerance: DOUBLE,
    draw: (draw) => ({ steps: steps(draw), ...normalised(draw) }),
  },
  {
    method: 'matpo_advantage',
    project: 'mzf666/MATPO',
    files: [CORE, 'verl/protocol.py'],
    published: 'matpo_advantage',
    tolerance: DOUBLE,
    draw: (draw) => {
      const { group, reward } = grouped(draw);
      const main = group.map((query, row) => ({ id: `m${row}`, query, reward: reward[row]! }));
      const workers = [
        { parent: 'm0' },
        ...draw.list(draw.integer(0, 20), () => ({ parent: draw.chance(0.1) ? null : draw.one(main).id })),
      ];
      return { main, workers, ...normalised(draw) };
    },
  },
  {
    method: 'marft_gae',
    project: 'jwliao-ai/MARFT',
    files: ['marft/buffers/action_level_buffer.py'],
    published: 'marft_gae',
    tolerance: DOUBLE,
    draw: (draw) => {
      const [turns, agents] = [draw.integer(1, 8), draw.integer(1, 4)];
      const matrix = () => draw.list(turns, () => draw.list(agents, () => draw.uniform(-2, 2)));
      const given = { gamma: draw.one([0.99, 1, 0.5]), lambda: draw.one([0.95, 1, 0]), entry_mask: true };
      return { rewards: matrix(), values: matrix(), alive: draw.bits(turns), bootstrap: draw.uniform(-1, 1), ...given };
    },
  },
  {
    method: 'mars_turn_advantage',
    project: 'thu-nics/MARS',
    files: ['roll/utils/functionals.py'],
    published: 'mars_turn_advantage',
    tolerance: SINGLE,
    draw: (draw) => {
      const trajectories = draw.list(draw.integer(1, 8), (at) => ({
        id: `t${at}`,
        player: at < 2 ? at : draw.integer(0, 1),
        turn_rewards: draw.list(draw.integer(2, 5), () => draw.uniform(-1, 1)),
      }));
      const width = 12;
      const tokens = trajectories.map(({ turn_rewards: { length } }) => [
        ...draw.list(length - 1, () => draw.integer(1, 2)),
      ]);
      const filled = tokens.map((lengths) => [...lengths, width - lengths.reduce((a, b) => a + b, 0)]);
      return { trajectories, gamma: 1, advantage_norm: draw.one([null, 'mean', 'mean_std']), tokens: filled };
    },
    ours: ({ tokens: _, ...input }: { readonly tokens: unknown }) => input,
  },
  {
    ...petting,
    method: 'at_grpo_advantage',
    published: 'at_grpo',
    files: [PETTING_TRAINER, PETTING_CORE],
    // Its fork of verl gives a group of one 0, and its reward only where all groups are of one; ours follows verl.
    draw: (draw) => {
      const places = draw.groups(8, [2, 6]).map((name) => Number(name.slice('group '.length)));
      const rewards = draw.rewards(places.length);
      const where = (place: number) => ({ env: place >> 2, turn: (place >> 1) & 1, agent: place & 1 });
      const steps = rewards.map((reward, row) => ({ ...where(places[row]!), reward }));
      return { steps, scale_std: draw.chance(0.7), eps: 1e-6 };
    },
  },
  {
    ...petting,
    method: 'metaagentx_advantage',
    published: 'metaagentx',
    files: [PETTING_TRAINER, PETTING_CORE],
    draw: (draw) => {
      const executed = draw.integer(2, 5);
      const exec_rewards = draw.list(draw.integer(2, 6), () => draw.rewards(executed));
      return { exec_rewards, executor_group: draw.one([null, 'question', 'design']), scale_std: true, eps: 1e-6 };
    },
  },
];
