/** MetaAgent-X (PettingLLMs repository): a designer and the executions of its designs. */

import { Type } from 'typebox';
import type { OnStep } from '../judging/judgement.ts';
import { credit, reward } from '../judging/judgement.ts';
import { launches, launchRows, rewardOf, withDoubts } from '../judging/launches.ts';
import type { MethodFacts } from '../judging/method-facts.ts';
import type { GroupMember } from '../judging/over-episodes.ts';
import type { Units } from '../judging/walk.ts';
import { VERL_PARAMS, verlAdvantage } from './group-relative.ts';
import { method } from './method.ts';
import { requireRectangle } from './refuse.ts';
import { Reward } from './shapes.ts';
import { groupRows, mean } from './statistics.ts';

/**
 * MetaAgent-X: an episode that launched others is a design, those are its executions. Credit compares designs that were executed equally often; where they were not, the whole group has that reason.
 */
function onDesigns(facts: MethodFacts, row: OnStep, { credited }: { readonly credited: boolean }) {
  const reasonIn = withDoubts(facts);
  return ({ members }: Units['group']) => {
    const tree = launches(members);
    const designs = tree.roots.filter((member) => tree.childrenOf(member).length > 0);
    if (designs.length === 0) return launchRows(row, members, tree, () => ({ value: null, reason: 'no_executions' }));
    const executions = designs.map((design) => tree.childrenOf(design));
    if (credited && executions.some((own) => own.length !== executions[0]!.length)) return 'uneven_executions';
    const rows = (output: {
      readonly designer: readonly (number | null)[];
      readonly executor: readonly (number | null)[] | readonly (readonly (number | null)[])[];
    }) => {
      const values = new Map<GroupMember, number | null>();
      const earned = output.executor.flat();
      for (const [d, design] of designs.entries()) values.set(design, output.designer[d] ?? null);
      for (const [i, execution] of executions.flat().entries()) values.set(execution, earned[i] ?? null);
      return launchRows(row, members, tree, (member) => {
        const value = values.get(member);
        if (value === undefined)
          return { value: null, reason: tree.parentOf(member) ? 'not_an_execution' : 'no_executions' };
        if (value === null) return { value, reason: 'missing_reward' };
        const design = tree.parentOf(member);
        const peers = (design === null ? designs : tree.childrenOf(design)).map((peer) => values.get(peer) ?? null);
        const compared = design === null ? peers : executions.flat().map(rewardOf);
        return { value, reason: credited ? reasonIn(member.episode, silence(peers, compared)) : null };
      });
    };
    return { input: { exec_rewards: executions.map((own) => own.map(rewardOf)) }, rows };
  };
}

/** Why a credit of 0 is no middling one: nobody to be compared with, or all that is compared with each other is equal. */
function silence(peers: readonly (number | null)[], compared: readonly (number | null)[]) {
  if (compared.filter((one) => one !== null).length === 1) return 'group_of_one';
  return peers.every((one) => one === null || one === 0) ? 'zero_variance' : null;
}

/**
 * MetaAgent-X: the designer of a team is worth the mean of what its executions earn.
 *
 * Source: PettingLLMs repository, multi_agents_execution_engine_autoevol.py and gen_agent.py. Verified (code).
 * A row is a design, a column one of its executions. Dropped: the executors' length penalty, which the release sets to 0.
 * Executions without a reward leave the mean; a design without any has none.
 * Kept: the mean over executions. Open: nothing known.
 */
export const metaagentxRewards = method({
  name: 'metaagentx_rewards',
  kind: 'reward',
  source: 'MetaAgent-X: PettingLLMs, multi_agents_execution_engine_autoevol.py; verified (code)',
  version: 1,
  summary:
    'Executors keep their reward; a designer gets the mean over its executions; stored on each step of the episode.',
  teams: 'a designer and the executions of its designs',
  input: Type.Object({ exec_rewards: Type.Array(Type.Array(Reward)) }),
  run: ({ exec_rewards }) => ({
    designer: exec_rewards.map((row) => {
      const known = row.filter((reward) => reward !== null);
      return known.length === 0 ? null : mean(known);
    }),
    executor: exec_rewards,
  }),
  judged: {
    over: 'group',
    writes: ['rewards', 'scores'],
    each: (facts) => onDesigns(facts, reward, { credited: false }),
  },
});

const params: typeof VERL_PARAMS & { readonly executor_group: 'question' | 'design' | null } = {
  ...VERL_PARAMS,
  executor_group: null,
};

/**
 * MetaAgent-X: designers are compared with the other designs of the problem, executors with executions of the problem or of their design.
 *
 * Source: PettingLLMs repository, multi_agents_execution_engine_autoevol.py and gen_agent.py. Verified (code).
 * A row is a design, a column one of its executions. `executor_group` null means `question` up to two executions a design, otherwise
 * `design`. A design is worth the mean of its executions. Executors come out one design after the other.
 * Kept: both groupings and the rule between them. Dropped: the reward itself, which is `metaagentx_rewards`. Open: the source's own fork of verl gives a group of one the
 * advantage 0 where other groups are larger; here it is verl's, the reward.
 */
export const metaagentxAdvantage = method({
  name: 'metaagentx_advantage',
  kind: 'credit',
  source: 'MetaAgent-X: PettingLLMs, multi_agents_execution_engine_autoevol.py; verified (code)',
  version: 1,
  summary:
    'GRPO over designs by their mean, and over executions by problem or design; stored on each step of the episode.',
  teams: 'a designer and the executions of its designs',
  params,
  limits: {
    eps: Type.Number({ minimum: 0 }),
    executor_group: Type.Union([Type.Literal('question'), Type.Literal('design'), Type.Null()]),
  },
  input: Type.Object({ exec_rewards: Type.Array(Type.Array(Reward)) }),
  run: ({ exec_rewards }, params) => {
    const executions = requireRectangle('exec_rewards', exec_rewards);
    const byDesign = (params.executor_group ?? (executions <= 2 ? 'question' : 'design')) === 'design';
    const worth = exec_rewards.map((row) => {
      const known = row.filter((reward) => reward !== null);
      return known.length === 0 ? null : mean(known);
    });
    const groups = exec_rewards.flatMap((row, design) => row.map(() => (byDesign ? design : 0)));
    return {
      designer: verlAdvantage(groupRows(worth.map(() => 0)), worth, params),
      executor: verlAdvantage(groupRows(groups), exec_rewards.flat(), params),
    };
  },
  judged: {
    over: 'group',
    writes: ['credits', 'scores'],
    each: (facts) => onDesigns(facts, credit, { credited: true }),
  },
});
