/** The published code of what agents and steps are worth, and the inputs they are compared on. */
import { DOUBLE, type MethodSource, SINGLE } from './method-source.ts';

const dylan = { project: 'SALT-NLP/DyLAN', tolerance: DOUBLE } as const;
const masprm = { project: 'milad1378yz/MASPRM', tolerance: DOUBLE } as const;

export const PROCESS: readonly MethodSource[] = [
  {
    ...dylan,
    method: 'dylan_edge_weights',
    published: 'dylan_edge_weights',
    files: ['code/demo/LLM_Neuron.py'],
    draw: (draw) => {
      const ratings = draw.list(draw.integer(1, 6), () => draw.integer(-1, 7));
      return { ratings, n_peers: draw.chance(0.8) ? ratings.length : draw.integer(1, 6) };
    },
  },
  {
    ...dylan,
    method: 'dylan_importance',
    published: 'dylan_importance',
    files: ['code/demo/LLMLP.py'],
    draw: (draw) => {
      const names = ['A', 'B', 'C', 'D'].slice(0, draw.integer(1, 4));
      const each = <T>(make: () => T) => Object.fromEntries(names.map((name) => [name, make()]));
      const reply = () => ({ active: draw.chance(0.8), agrees: draw.chance(0.6) });
      const rounds = draw.list(draw.integer(1, 4), () => each(reply));
      // Where nobody agrees with the final answer theirs divides by zero.
      const last = rounds.findLast((round) => names.some((name) => round[name]!.active));
      const speaker = Object.values(last ?? {}).find(({ active }) => active);
      if (speaker !== undefined) speaker.agrees = true;
      return { rounds, edges: rounds.slice(1).map(() => each(() => each(() => draw.uniform()))) };
    },
  },
  {
    ...dylan,
    method: 'dylan_consensus',
    published: 'dylan_consensus',
    files: ['code/demo/LLMLP.py', 'code/demo/utils.py'],
    draw: (draw) => {
      const answers = draw.list(draw.integer(1, 7), () => draw.one(['a', 'b', 'a', '']));
      return { answers, n: answers.length + draw.integer(0, 2) };
    },
  },
  {
    ...masprm,
    method: 'masprm_backprop',
    published: 'masprm_backprop',
    files: ['src/mcts.py'],
    draw: (draw) => {
      const path = () => ['root', `a${draw.integer(0, 2)}`];
      const leaf = (nodes: string[]) => [...nodes, `${nodes.at(-1)}-${draw.integer(0, 2)}`];
      return { rollouts: draw.list(draw.integer(1, 32), () => ({ path: leaf(path()), correct: draw.chance(0.5) })) };
    },
  },
  {
    ...masprm,
    method: 'uct',
    published: 'masprm_uct',
    files: ['src/mcts.py'],
    draw: ({ uniform, integer, one }) => {
      const child_visits = integer(0, 30);
      return { q: uniform(-1, 1), parent_visits: child_visits + integer(0, 30), child_visits, c: one([2, 1, 0]) };
    },
  },
  {
    ...masprm,
    method: 'masprm_tree_keep',
    published: 'masprm_tree_keep',
    files: ['src/train/preprocess_data.py'],
    draw: ({ uniform, one }) => ({ root_q: one([0.7, -0.7, 1, -1, 0, uniform(-1, 1)]) }),
  },
  {
    ...masprm,
    method: 'masprm_target',
    published: 'masprm_target',
    files: ['src/train/trainer.py'],
    tolerance: SINGLE,
    draw: ({ uniform, one }) => ({ q: one([1, -1, 0.95, uniform(-1, 1)]) }),
  },
  {
    ...masprm,
    method: 'masprm_path_score',
    published: 'masprm_path_score',
    files: ['src/experiments/core.py'],
    draw: (draw) => ({ values: draw.list(draw.integer(0, 8), () => draw.one([-1, 1, draw.uniform(-1, 1)])) }),
  },
];
