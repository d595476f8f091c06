/**
 * MATPO: the planner's roll-outs are compared with each other, and a worker's roll-out shares the fate of the one that launched it.
 *
 * Source: mzf666/MATPO, verl/protocol.py, verl/trainer/ppo/core_algos.py. Verified (code).
 * Kept: verl's GRPO over the planner's roll-outs only. A padded row is a worker with parent null; its advantage is 0.
 * Dropped: the spread over tokens; ids must differ, because a worker would have two parents. Open: nothing known.
 */

import { Type } from 'typebox';
import { credit } from '../../judging/judgement.ts';
import { launches, launchRows, rewardOf, withDoubts } from '../../judging/launches.ts';
import { type Member, overGroups } from '../../judging/over-episodes.ts';
import { groupFlags } from '../group-flags.ts';
import { VERL_PARAMS, verlAdvantage } from '../group-relative.ts';
import { method } from '../method.ts';
import { refuseInput } from '../refuse.ts';
import { Key, nullable, Reward } from '../shapes.ts';
import { groupRows } from '../statistics.ts';

type Advantages = { readonly main: readonly (number | null)[]; readonly worker: readonly (number | null)[] };

export const matpoAdvantage = method({
  name: 'matpo_advantage',
  kind: 'credit',
  source: 'MATPO: mzf666/MATPO, verl/protocol.py and core_algos.py; verified (code)',
  version: 1,
  summary:
    'GRPO over the planner’s roll-outs; each worker copies its parent’s advantage; stored on each step of the episode.',
  params: VERL_PARAMS,
  limits: { eps: Type.Number({ minimum: 0 }) },
  input: Type.Object({
    main: Type.Array(Type.Object({ id: Key, query: Key, reward: Reward })),
    workers: Type.Array(Type.Object({ parent: nullable(Key) })),
  }),
  run: ({ main, workers }, params): Advantages => {
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
    writes: ['credits', 'scores'],
    /** MATPO: planners are the episodes that nobody launched; a worker, at whatever depth, shares the fate of its planner. */
    rows: (facts, ask) => {
      const reasonIn = withDoubts(facts);
      return overGroups(facts, credit, (members, group) => {
        const tree = launches(members);
        const planners = tree.roots;
        const workers = tree.nodes.filter((member) => tree.parentOf(member) !== null);
        const plannerOf = (member: Member) => tree.pathTo(member)[0]!;
        const main = planners.map((member) => ({
          id: member.episode.episode_id,
          query: group,
          reward: rewardOf(member),
        }));
        const output = ask.answer({
          main,
          workers: workers.map((worker) => ({ parent: plannerOf(worker).episode.episode_id })),
        });
        if (typeof output === 'string') return output;
        const values = new Map([
          ...planners.map((planner, i): [Member, number | null] => [planner, output.main[i] ?? null]),
          ...workers.map((worker, i): [Member, number | null] => [worker, output.worker[i] ?? null]),
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
      });
    },
  },
});
