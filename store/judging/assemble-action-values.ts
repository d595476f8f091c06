/** MARFT: credit from a critic's values of what the agents did, one after the other. */
import { groupBy } from '../methods/statistics.ts';
import type { Assemble, Assemblers } from './assembler.ts';
import { type StepFacts, stepKey } from './facts.ts';
import { credit, type Judgement } from './judgement.ts';
import { numbersOn, ownRewardsOf } from './named-feedback.ts';
import { answerTo, type Member, noSteps, onwardOf, overGroups } from './over-episodes.ts';
import { mixedIn } from './policy-versions.ts';

type Rounds = readonly (readonly StepFacts[])[];
/** What of an episode stands in a buffer: its turns by agents in acting order, and what each action earned. */
type Part = { readonly rounds: Rounds; readonly rewards: readonly (readonly number[])[] };

/**
 * Turns by agents in acting order, with a critic's `value` of each step. Steps earn rewards of their own or, where none is recorded, the
 * episode's reward stands at its end. The episodes of a group are one buffer, one after the other, each ended by its last turn:
 * `normalise` is over the group, so that an answer depends on nothing else. Teams of other agents are other buffers.
 */
const byActionValues: Assemble = (method, params, facts) => {
  const ownReward = ownRewardsOf(facts);
  const values = numbersOn(facts.feedback, 'step', 'value');
  const criticOf = ({ episode_id, step_id }: StepFacts) => values.get(stepKey(episode_id, step_id));
  const mixed = mixedIn(facts);
  return overGroups(method, facts, (members) => {
    const said = new Map<StepFacts, Judgement>();
    const buffers = new Map<string, Part[]>();
    for (const member of members) {
      const chain = onwardOf(member.steps);
      const part = partOf(member, chain, ownReward, criticOf);
      const reason = typeof part === 'string' ? part : null;
      const onward = new Set(chain);
      for (const step of member.steps) said.set(step, credit(step, null, onward.has(step) ? reason : 'not_chosen'));
      if (typeof part === 'string' || chain.length === 0) continue;
      const team = actors(part.rounds[0]!);
      const buffer = buffers.get(team);
      if (buffer === undefined) buffers.set(team, [part]);
      else buffer.push(part);
    }
    for (const buffer of buffers.values()) {
      const rounds = buffer.flatMap((part) => part.rounds);
      const output = answerTo<{ advantages: number[][]; returns: number[][] }>(method, {
        rewards: buffer.flatMap((part) => part.rewards),
        values: rounds.map((round) => round.map(criticOf)),
        alive: buffer.flatMap((part) => part.rounds.map((_, t) => (t === part.rounds.length - 1 ? 0 : 1))),
        bootstrap: 0,
        ...params,
      });
      for (const [t, round] of rounds.entries()) {
        for (const [a, step] of round.entries()) {
          if (typeof output === 'string') said.set(step, credit(step, null, output));
          else {
            const reason = mixed(step.episode_id) ? 'mixed_policies' : null;
            said.set(step, credit(step, output.advantages[t]![a]!, reason, { return: output.returns[t]![a] }));
          }
        }
      }
    }
    return members.flatMap((member) =>
      member.steps.length === 0 ? [noSteps(member.episode)] : member.steps.map((step) => said.get(step)!),
    );
  });
};

const actors = (round: readonly StepFacts[]) => JSON.stringify(round.map(({ agent }) => agent));

function partOf(
  { episode }: Member,
  chain: readonly StepFacts[],
  ownReward: (step: StepFacts) => number | null,
  criticOf: (step: StepFacts) => number | undefined,
): Part | string {
  if (chain.some((step) => step.turn === null)) return 'no_turn';
  const rounds = [...groupBy(chain, (step) => step.turn).values()];
  if (rounds.some((round) => actors(round) !== actors(rounds[0]!))) return 'uneven_turns';
  if (chain.some((step) => criticOf(step) === undefined)) return 'no_values';
  const rewards = rewardsOf(rounds, ownReward, episode.reward);
  return rewards === null ? 'missing_reward' : { rounds, rewards };
}

/** Null where a reward is missing. */
function rewardsOf(
  rounds: Rounds,
  ownReward: (step: StepFacts) => number | null,
  outcome: number | null,
): (readonly number[])[] | null {
  const own = rounds.map((round) => round.map(ownReward));
  const all = own.flat();
  if (all.some((one) => one !== null)) return all.includes(null) ? null : (own as number[][]);
  if (outcome === null) return null;
  return rounds.map((round, t) =>
    round.map((_, a) => (t === rounds.length - 1 && a === round.length - 1 ? outcome : 0)),
  );
}

export const ACTION_VALUE_ASSEMBLERS: Assemblers = {
  'action values': { credit: { over: byActionValues, reads: ['feedback'], writes: ['credits', 'scores'] } },
};
