/**
 * MATPO: the planner's roll-outs are compared with each other, and a worker's roll-out shares the fate of the one that launched it.
 *
 * Source: mzf666/MATPO, verl/protocol.py, verl/trainer/ppo/core_algos.py. Verified (code).
 * Kept: verl's GRPO over the planner's roll-outs only. A padded row is a worker with parent null; its advantage is 0.
 * Dropped: the spread over tokens; ids must differ, because a worker would have two parents. Open: nothing known.
 */

import { type Static, Type } from 'typebox';
import { VERL_PARAMS, verlAdvantage } from '../group-relative.ts';
import type { Method } from '../method.ts';
import { refuseInput } from '../refuse.ts';
import { Key, nullable, Reward } from '../shapes.ts';
import { groupRows } from '../statistics.ts';

const Input = Type.Object({
  main: Type.Array(Type.Object({ id: Key, query: Key, reward: Reward })),
  workers: Type.Array(Type.Object({ parent: nullable(Key) })),
});

type Advantages = { readonly main: readonly (number | null)[]; readonly worker: readonly (number | null)[] };

export const matpoAdvantage: Method<Static<typeof Input>, typeof VERL_PARAMS, Advantages> = {
  name: 'matpo_advantage',
  kind: 'credit',
  source: 'MATPO: mzf666/MATPO, verl/protocol.py and core_algos.py; verified (code)',
  version: 1,
  needs: 'planner and workers',
  summary:
    'GRPO over the planner’s roll-outs; each worker copies its parent’s advantage; stored on each step of the episode.',
  params: VERL_PARAMS,
  limits: { eps: Type.Number({ minimum: 0 }) },
  input: Input,
  run: ({ main, workers }, params) => {
    const advantages = verlAdvantage(
      groupRows(main.map(({ query }) => query)),
      main.map(({ reward }) => reward),
      params,
    );
    const byId = new Map(main.map(({ id }, i) => [id, advantages[i]!]));
    if (byId.size !== main.length)
      refuseInput(
        'main',
        'roll-outs with an id of its own each',
        main.map(({ id }) => id),
      );
    const worker = workers.map(({ parent }, i) => {
      if (parent === null) return 0;
      const advantage = byId.get(parent);
      return advantage === undefined
        ? refuseInput(`workers[${i}].parent`, 'the id of a main roll-out', parent)
        : advantage;
    });
    return { main: advantages, worker };
  },
};
