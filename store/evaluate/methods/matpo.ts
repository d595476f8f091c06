/** MATPO (mzf666/MATPO): a planner and the workers that it launches learn as one policy. */

import { Type } from 'typebox';
import { credit } from '../judging/judgement.ts';
import { launches, launchRows, rewardOf, withDoubts } from '../judging/launches.ts';
import type { GroupMember } from '../judging/over-episodes.ts';
import { groupFlags } from './group-flags.ts';
import { VERL_PARAMS, verlAdvantage } from './group-relative.ts';
import { method } from './method.ts';
import { refuseInput } from './refuse.ts';
import { Key, nullable, Reward } from './shapes.ts';
import { groupRows } from './statistics.ts';

/**
 * MATPO: the planner's roll-outs are compared with each other, and a worker's roll-out shares the fate of the one that launched it.
 *
 * Source: mzf666/MATPO, verl/protocol.py, verl/trainer/ppo/core_algos.py. Verified (code).
 * Kept: verl's GRPO over the planner's roll-outs only. A padded row is a worker with parent null; its advantage is 0.
 * Dropped: the spread over tokens; ids must differ, because a worker would have two parents. Open: nothing known.
 */
export const matpoAdvantage = method({
  name: 'matpo_advantage',
  kind: 'credit',
  source: 'MATPO: mzf666/MATPO, verl/protocol.py and core_algos.py; verified (code)',
  version: 1,
  summary:
    'GRPO over the planner’s roll-outs; each worker copies its parent’s advantage; stored on each step of the episode.',
  teams: 'a planner that launches workers',
  params: VERL_PARAMS,
  limits: { eps: Type.Number({ minimum: 0 }) },
  input: Type.Object({
    main: Type.Array(Type.Object({ id: Key, query: Key, reward: Reward })),
    workers: Type.Array(Type.Object({ parent: nullable(Key) })),
  }),
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
  judged: {
    over: 'group',
    writes: ['credits', 'scores'],
    /** MATPO: planners are the episodes that nobody launched; a worker, at whatever depth, shares the fate of its planner. */
    each: (facts) => {
      const reasonIn = withDoubts(facts);
      return ({ members, group }) => {
        const tree = launches(members);
        const planners = tree.roots;
        const workers = tree.nodes.filter((member) => tree.parentOf(member) !== null);
        const plannerOf = (member: GroupMember) => tree.pathTo(member)[0]!;
        const main = planners.map((member) => ({
          id: member.episode.episode_id,
          query: group,
          reward: rewardOf(member),
        }));
        return {
          input: {
            main,
            workers: workers.map((worker) => ({ parent: plannerOf(worker).episode.episode_id })),
          },
          rows: (output) => {
            const values = new Map([
              ...planners.map((planner, i): [GroupMember, number | null] => [planner, output.main[i] ?? null]),
              ...workers.map((worker, i): [GroupMember, number | null] => [worker, output.worker[i] ?? null]),
            ]);
            const flags = groupFlags(
              planners.map(() => group),
              planners.map(rewardOf),
            );
            const flagOf = new Map(planners.map((planner, i) => [planner, flags[i] ?? null]));
            return launchRows(credit, members, tree, (member) => ({
              value: values.get(member) ?? null,
              reason: reasonIn(member.episode, flagOf.get(plannerOf(member)) ?? null),
            }));
          },
        };
      };
    },
  },
});

type Aggregation = 'seq-mean-token-mean' | 'seq-mean-token-sum' | 'token-mean';
const params: { aggregation: Aggregation } = { aggregation: 'seq-mean-token-mean' };

/**
 * Keeps many worker roll-outs from diluting the loss of the few planner roll-outs that launched them.
 *
 * Source: mzf666/MATPO, verl/trainer/ppo/core_algos.py. Verified (code). `batch_size` counts every row, padded ones too.
 * Both sequence means are scaled, a token mean is left alone. A loss belongs to a training step and to no recorded episode, so that it
 * is run by hand.
 * Kept: rows over planner roll-outs, at least one. Dropped: the loss itself. Open: nothing known.
 */
export const matpoLossScale = method({
  name: 'matpo_loss_scale',
  kind: 'credit',
  source: 'MATPO: mzf666/MATPO, core_algos.py; verified (code)',
  version: 1,
  summary: 'Multiplies a sequence-mean loss by rows per planner roll-out.',
  teams: 'a planner that launches workers',
  params,
  limits: {
    aggregation: Type.Union([
      Type.Literal('seq-mean-token-mean'),
      Type.Literal('seq-mean-token-sum'),
      Type.Literal('token-mean'),
    ]),
  },
  input: Type.Object({
    loss: Type.Number(),
    batch_size: Type.Integer({ minimum: 0 }),
    num_main: Type.Integer({ minimum: 0 }),
  }),
  run: ({ loss, batch_size, num_main }, { aggregation }): number =>
    aggregation === 'token-mean' ? loss : (loss * batch_size) / Math.max(1, num_main),
});
