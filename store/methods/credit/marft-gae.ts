/**
 * MARFT: generalised advantages along a chain of turns in which the agents act one after the other.
 *
 * Source: jwliao-ai/MARFT, marft/buffers/action_level_buffer.py. Verified (code). Rewards and values have a row for each turn and a
 * column for each agent in acting order. Within a turn the next value is the next agent's; after the last agent it is the first of the
 * next turn, unless the episode ended (`alive` 0). `entry_mask` is the released behaviour, which cuts the chain inside the turn after an
 * end, against the paper. `normalise` is the batch step that follows in the source: (A − mean)/(std ddof 0 + 1e-8), statistics without
 * entries that are exactly 0. Returns are taken before it. Dropped: the token-level variant and the value loss.
 * Kept: γ 0.99, λ 0.95, the walk from the last agent of the last turn. Open: nothing known.
 */

import { Type } from 'typebox';
import { type StepFacts, stepKey } from '../../judging/facts.ts';
import { doubtIn } from '../../judging/group-doubts.ts';
import { credit, type Judgement } from '../../judging/judgement.ts';
import { numbersOn, ownRewardsOf } from '../../judging/named-feedback.ts';
import { complete, type Member, noSteps, onwardOf, overGroups } from '../../judging/over-episodes.ts';
import { method } from '../method.ts';
import { refuseInput, requireRectangle, requireRows } from '../refuse.ts';
import { Bit } from '../shapes.ts';
import { groupBy, mean, standardDeviation } from '../statistics.ts';

const Matrix = Type.Array(Type.Array(Type.Number()));
const Input = Type.Object({ rewards: Matrix, values: Matrix, alive: Type.Array(Bit), bootstrap: Type.Number() });
const params = { gamma: 0.99, lambda: 0.95, entry_mask: false, normalise: false };
const Discount = Type.Number({ minimum: 0, maximum: 1 });

type Estimate = {
  readonly advantages: readonly (readonly number[])[];
  readonly returns: readonly (readonly number[])[];
};

export const marftGae = method({
  name: 'marft_gae',
  kind: 'credit',
  source: 'MARFT: jwliao-ai/MARFT, buffers/action_level_buffer.py; verified (code)',
  version: 1,
  summary: 'GAE from agent to agent within a turn and from turn to turn.',
  params,
  limits: { gamma: Discount, lambda: Discount },
  input: Input,
  run: ({ rewards, values, alive, bootstrap }, { gamma, lambda, entry_mask, normalise }): Estimate => {
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
    return { advantages: normalise ? normalised(advantages) : advantages, returns };
  },
  judged: {
    reads: ['rewards', 'feedback'],
    writes: ['credits', 'scores'],
    /**
     * Turns by agents in acting order, with a critic's `value` of each step. Steps earn rewards of their own or, where none is recorded, the
     * episode's reward stands at its end. The episodes of a group are one buffer, one after the other, each ended by its last turn:
     * `normalise` is over the group, so that an answer depends on nothing else. Teams of other agents are other buffers.
     */
    rows: (facts, ask) => {
      const ownReward = ownRewardsOf(facts);
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
          const team = actors(part.rounds[0]!);
          const buffer = buffers.get(team);
          if (buffer === undefined) buffers.set(team, [part]);
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
                const reason = doubt(step.episode_id);
                judgements.set(
                  step,
                  credit(step, output.advantages[t]![a]!, reason, { return: output.returns[t]![a] }),
                );
              }
            }
          }
        }
        return members.flatMap((member) =>
          member.steps.length === 0 ? [noSteps(member.episode)] : member.steps.map((step) => judgements.get(step)!),
        );
      });
    },
  },
});

function normalised(advantages: readonly (readonly number[])[]): number[][] {
  const counted = advantages.flat().filter((value) => value !== 0);
  const [centre, deviation] = counted.length === 0 ? [0, 0] : [mean(counted), standardDeviation(counted, 0)];
  return advantages.map((row) => row.map((value) => (value - centre) / (deviation + 1e-8)));
}

type Rounds = readonly (readonly StepFacts[])[];

/** What of an episode stands in a buffer: its turns by agents in acting order, and what each action earned. */
type Part = {
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
  const rounds = [...groupBy(chain, (step) => step.turn).values()];
  if (rounds.some((round) => actors(round) !== actors(rounds[0]!))) return 'uneven_turns';
  const values = complete(rounds.map((round) => complete(round.map(criticOf))));
  if (values === null) return 'no_values';
  const rewards = rewardsOf(rounds, ownReward, episode.reward);
  return rewards === null ? 'missing_reward' : { rounds, rewards, values };
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
