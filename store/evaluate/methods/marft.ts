/** MARFT (jwliao-ai/MARFT): agents act one after the other, and advantages walk back along that chain. */

import { type Static, Type } from 'typebox';
import { groupBy } from '../../../ingest/events/group-by.ts';
import { type StepFacts, stepKey } from '../judging/facts.ts';
import { doubtIn } from '../judging/group-doubts.ts';
import { credit, type Judgement } from '../judging/judgement.ts';
import type { MethodFacts } from '../judging/method-facts.ts';
import { EARNED, numbersOn, ownRewardsOf } from '../judging/named-feedback.ts';
import { complete, type GroupMember, noSteps, onwardOf } from '../judging/over-episodes.ts';
import type { Units } from '../judging/walk.ts';
import { type Ask, method } from './method.ts';
import { refuseInput, requireRectangle, requireRows } from './refuse.ts';
import { Bit, type Immutable } from './shapes.ts';
import { mean, standardDeviation } from './statistics.ts';

const Matrix = Type.Array(Type.Array(Type.Number()));
/** Rewards and a critic's values by turn and agent in acting order, whether the episode goes on after each turn, and the value after the last. */
const AgentChain = Type.Object({
  rewards: Matrix,
  values: Matrix,
  alive: Type.Array(Bit),
  bootstrap: Type.Number(),
});
type Chain = Immutable<Static<typeof AgentChain>>;
const Discount = Type.Number({ minimum: 0, maximum: 1 });

type Estimate = {
  readonly advantages: readonly (readonly number[])[];
  readonly returns: readonly (readonly number[])[];
};

/** Advantages and returns of turns by agents, walked from the last agent of the last turn. @throws TroupeError `method_input` for uneven rows */
function discountedChain(
  { rewards, values, alive, bootstrap }: Chain,
  { gamma, lambda, entry_mask }: { readonly gamma: number; readonly lambda: number; readonly entry_mask: boolean },
): Estimate {
  const agents = requireRectangle('rewards', rewards);
  if (requireRectangle('values', values) !== agents) refuseInput('values', `rows of ${agents} agents`, values[0]);
  requireRows('values', values, rewards.length, 'the turns of rewards');
  requireRows('alive', alive, rewards.length, 'the turns of rewards');
  const advantages = values.map((row) => row.map(() => 0));
  let gae = 0;
  for (let turn = rewards.length - 1; turn >= 0; turn--) {
    for (let agent = agents - 1; agent >= 0; agent--) {
      const last = agent === agents - 1;
      const next = last ? (values[turn + 1]?.[0] ?? bootstrap) : values[turn]![agent + 1]!;
      const within = entry_mask ? (alive[turn - 1] ?? 1) : 1;
      const mask = last ? alive[turn]! : within;
      const delta = rewards[turn]![agent]! + gamma * next * mask - values[turn]![agent]!;
      gae = delta + gamma * lambda * mask * gae;
      advantages[turn]![agent] = gae;
    }
  }
  const returns = advantages.map((row, turn) => row.map((advantage, agent) => advantage + values[turn]![agent]!));
  return { advantages, returns };
}

/**
 * Turns by agents in acting order, with a critic's `value` of each step. Steps earn rewards of their own or, where none is recorded, the
 * episode's reward stands at its end. The episodes of a group are one buffer, one after the other, each ended by its last turn, so that an
 * answer depends on nothing but the group. Teams of other agents are other buffers.
 */
function onBuffers<Params extends Readonly<typeof EARNED>, Output extends object>(
  facts: MethodFacts,
  ask: Pick<Ask<Chain, Params, Output>, 'answer' | 'params'>,
  of: (output: Output, turn: number, agent: number) => { readonly value: number; readonly detail?: unknown },
): (group: Units['group']) => Judgement[] {
  const ownReward = ownRewardsOf(facts, ask.params);
  const values = numbersOn(facts.feedback, 'step', 'value');
  const criticOf = ({ episode_id, step_id }: StepFacts) => values.get(stepKey(episode_id, step_id));
  const doubt = doubtIn(facts);
  return ({ members }) => {
    const judgements = new Map<StepFacts, Judgement>();
    const buffers = new Map<string, EpisodePart[]>();
    for (const member of members) {
      const chain = onwardOf(member.steps);
      const part = partOf(member, chain, ownReward, criticOf);
      const reason = typeof part === 'string' ? part : null;
      const onward = new Set(chain);
      for (const step of member.steps)
        judgements.set(step, credit(step, null, onward.has(step) ? reason : 'not_chosen'));
      if (typeof part === 'string' || chain.length === 0) continue;
      const buffer = buffers.get(part.team);
      if (buffer === undefined) buffers.set(part.team, [part]);
      else buffer.push(part);
    }
    for (const buffer of buffers.values()) {
      const rounds = buffer.flatMap((part) => part.rounds);
      const output = ask.answer({
        rewards: buffer.flatMap((part) => part.rewards),
        values: buffer.flatMap((part) => part.values),
        alive: buffer.flatMap((part) => part.rounds.map((_, t): 0 | 1 => (t === part.rounds.length - 1 ? 0 : 1))),
        bootstrap: 0,
      });
      for (const [t, round] of rounds.entries()) {
        for (const [a, step] of round.entries()) {
          if (typeof output === 'string') judgements.set(step, credit(step, null, output));
          else {
            const { value, detail } = of(output, t, a);
            judgements.set(step, credit(step, value, doubt(step.episode_id), detail));
          }
        }
      }
    }
    return members.flatMap((member) =>
      member.steps.length === 0 ? [noSteps(member.episode)] : member.steps.map((step) => judgements.get(step)!),
    );
  };
}

type Rounds = readonly (readonly StepFacts[])[];

/** What of an episode stands in a buffer: its turns by agents in acting order, and what each action earned. */
type EpisodePart = {
  /** Buffers of different teams do not mix. */
  readonly team: string;
  readonly rounds: Rounds;
  readonly rewards: readonly (readonly number[])[];
  readonly values: readonly (readonly number[])[];
};

const actors = (round: readonly StepFacts[]) => JSON.stringify(round.map(({ agent }) => agent));

function partOf(
  { episode }: GroupMember,
  chain: readonly StepFacts[],
  ownReward: (step: StepFacts) => number | null,
  criticOf: (step: StepFacts) => number | undefined,
): EpisodePart | string {
  if (chain.some((step) => step.turn === null)) return 'no_turn';
  const turns = [...groupBy(chain, (step) => step.turn).values()];
  const even = turns.every((turn) => actors(turn) === actors(turns[0]!));
  const rounds = even ? turns : chain.map((step) => [step]);
  const values = complete(rounds.map((round) => complete(round.map(criticOf))));
  if (values === null) return 'no_values';
  const rewards = rewardsOf(rounds, ownReward, episode.reward);
  if (rewards === null) return 'missing_reward';
  return { team: even && rounds.length > 0 ? actors(rounds[0]!) : 'chain', rounds, rewards, values };
}

/** Null where a reward is missing. */
function rewardsOf(
  rounds: Rounds,
  ownReward: (step: StepFacts) => number | null,
  outcome: number | null,
): (readonly number[])[] | null {
  const own = rounds.map((round) => round.map(ownReward));
  if (own.flat().some((one) => one !== null)) return complete(own.map(complete));
  if (outcome === null) return null;
  return rounds.map((round, t) =>
    round.map((_, a) => (t === rounds.length - 1 && a === round.length - 1 ? outcome : 0)),
  );
}

/**
 * MARFT: generalised advantages along a chain of turns in which the agents act one after the other.
 *
 * Source: jwliao-ai/MARFT, marft/buffers/action_level_buffer.py. Verified (code). Rewards and values have a row for each turn and a
 * column for each agent in acting order. Within a turn the next value is the next agent's; after the last agent it is the first of the
 * next turn, unless the episode ended (`alive` 0). `entry_mask` is the released behaviour, which cuts the chain inside the turn after an
 * end, against the paper. `normalise` is the batch step that follows in the source: (A − mean)/(std ddof 0 + 1e-8), statistics without
 * entries that are exactly 0. Returns are taken before it. Dropped: the token-level variant and the value loss.
 * Kept: γ 0.99, λ 0.95, the walk from the last agent of the last turn. Open: nothing known. Version 2: an episode whose turns have
 * different agents is one chain, a turn for each action; the walk is the same.
 */
export const marftGae = method({
  name: 'marft_gae',
  kind: 'credit',
  source: 'MARFT: jwliao-ai/MARFT, buffers/action_level_buffer.py; verified (code)',
  version: 2,
  summary: 'GAE from agent to agent within a turn and from turn to turn.',
  teams: 'several agents',
  params: { gamma: 0.99, lambda: 0.95, entry_mask: false, normalise: false, ...EARNED },
  limits: { gamma: Discount, lambda: Discount },
  input: AgentChain,
  run: (input, { normalise, ...discounts }): Estimate => {
    const { advantages, returns } = discountedChain(input, discounts);
    return { advantages: normalise ? normalised(advantages) : advantages, returns };
  },
  judged: {
    over: 'group',
    reads: ['rewards', 'feedback'],
    writes: ['credits', 'scores'],
    each: (facts, ask) =>
      onBuffers(facts, ask, ({ advantages, returns }, t, a) => ({
        value: advantages[t]![a]!,
        detail: { return: returns[t]![a] },
      })),
  },
});

function normalised(advantages: readonly (readonly number[])[]): number[][] {
  const counted = advantages.flat().filter((value) => value !== 0);
  const [centre, deviation] = counted.length === 0 ? [0, 0] : [mean(counted), standardDeviation(counted, 0)];
  return advantages.map((row) => row.map((value) => (value - centre) / (deviation + 1e-8)));
}

/**
 * MARFT: the returns that its critic is trained on, the advantages of `marft_gae` plus the values that they were computed from.
 *
 * Source: jwliao-ai/MARFT, marft/buffers/action_level_buffer.py. Verified (code): returns are advantages plus values, before any
 * normalisation. Kept: γ 0.99, λ 0.95. Dropped: the clipped value loss. Open: nothing known.
 */
export const marftReturns = method({
  name: 'marft_returns',
  kind: 'credit',
  source: 'MARFT: jwliao-ai/MARFT, buffers/action_level_buffer.py; verified (code)',
  version: 1,
  summary: 'The value that a critic should have predicted for each step: GAE from agent to agent, plus its value.',
  teams: 'several agents',
  params: { gamma: 0.99, lambda: 0.95, ...EARNED },
  limits: { gamma: Discount, lambda: Discount },
  input: AgentChain,
  run: (input, discounts): readonly (readonly number[])[] =>
    discountedChain(input, { ...discounts, entry_mask: false }).returns,
  judged: {
    over: 'group',
    reads: ['rewards', 'feedback'],
    writes: ['credits', 'scores'],
    each: (facts, ask) => onBuffers(facts, ask, (returns, t, a) => ({ value: returns[t]![a]! })),
  },
});
