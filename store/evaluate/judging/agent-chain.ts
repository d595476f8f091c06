/** Episodes as buffers of turns by agents, with what a critic recorded of each action. */

import { groupBy } from '../../../ingest/events/group-by.ts';
import type { Chain } from '../methods/agent-chain.ts';
import type { Ask } from '../methods/method.ts';
import type { Assembled } from './assembled.ts';
import { type StepFacts, stepKey } from './facts.ts';
import { doubtIn } from './group-doubts.ts';
import { credit, type Judgement } from './judgement.ts';
import { type EARNED, numbersOn, ownRewardsOf } from './named-feedback.ts';
import { complete, type Member, noSteps, onwardOf, overGroups } from './over-episodes.ts';

type Found = { readonly value: number; readonly detail?: unknown };

/**
 * Turns by agents in acting order, with a critic's `value` of each step. Steps earn rewards of their own or, where none is recorded, the
 * episode's reward stands at its end. The episodes of a group are one buffer, one after the other, each ended by its last turn, so that an
 * answer depends on nothing but the group. Teams of other agents are other buffers.
 */
export function overBuffers<Params extends Readonly<typeof EARNED>, Output extends object>(
  facts: Assembled,
  ask: Pick<Ask<Chain, Params, Output>, 'answer' | 'params'>,
  of: (output: Output, turn: number, agent: number) => Found,
): Judgement[] {
  const ownReward = ownRewardsOf(facts, ask.params);
  const values = numbersOn(facts.feedback, 'step', 'value');
  const criticOf = ({ episode_id, step_id }: StepFacts) => values.get(stepKey(episode_id, step_id));
  const doubt = doubtIn(facts);
  return overGroups(facts, credit, (members) => {
    const judgements = new Map<StepFacts, Judgement>();
    const buffers = new Map<string, Part[]>();
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
  });
}

type Rounds = readonly (readonly StepFacts[])[];

/** What of an episode stands in a buffer: its turns by agents in acting order, and what each action earned. */
type Part = {
  /** Buffers of different teams do not mix. */
  readonly team: string;
  readonly rounds: Rounds;
  readonly rewards: readonly (readonly number[])[];
  readonly values: readonly (readonly number[])[];
};

const actors = (round: readonly StepFacts[]) => JSON.stringify(round.map(({ agent }) => agent));

function partOf(
  { episode }: Member,
  chain: readonly StepFacts[],
  ownReward: (step: StepFacts) => number | null,
  criticOf: (step: StepFacts) => number | undefined,
): Part | string {
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
