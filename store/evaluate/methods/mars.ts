/**
 * Self-play credit for each turn: what comes after it, measured against what the same player usually gets in the same game.
 *
 * Source: thu-nics/MARS (MARSHAL), roll/utils/functionals.py, roll/pipeline/agentic/agentic_pipeline.py. Verified (code).
 * Kept: the mean over all turn rewards of a game tag and player is subtracted first, then the rewards are summed from the end;
 * `advantage_norm` uses the distinct values of a player. Changed: values are distinct when they differ in the first 12 decimals, and
 * padding is no value; the source compares floats of the padded token matrix. γ is per turn here, per token there; at 1, the only
 * value released, they are the same. Whitening over tokens is `masked_whiten`.
 * Dropped: whitening of the token rewards, a positive factor that the last whitening removes. Open: nothing known.
 */

import { Type } from 'typebox';
import { groupBy } from '../../../ingest/events/group-by.ts';
import { type StepFacts, stepKey } from '../judging/facts.ts';
import { doubtIn } from '../judging/group-doubts.ts';
import { credit, type Judgement } from '../judging/judgement.ts';
import { EARNED, ownRewardsOf } from '../judging/named-feedback.ts';
import { complete, noSteps, onwardOf } from '../judging/over-episodes.ts';
import { method } from './method.ts';
import { refuseInput } from './refuse.ts';
import { Key } from './shapes.ts';
import { groupRows, groupStatistics, mean, standardDeviation } from './statistics.ts';

const params: {
  readonly gamma: number;
  readonly advantage_norm: 'mean' | 'mean_std' | null;
  readonly reward_name: string;
} = { gamma: 1, advantage_norm: null, ...EARNED };

export const marsTurnAdvantage = method({
  name: 'mars_turn_advantage',
  kind: 'credit',
  source: 'MARS / MARSHAL: thu-nics/MARS, roll/utils/functionals.py; verified (code)',
  version: 1,
  summary: 'Turn rewards less the player’s mean, summed from each turn to the end.',
  teams: 'several agents',
  params,
  limits: {
    gamma: Type.Number({ minimum: 0, maximum: 1 }),
    advantage_norm: Type.Union([Type.Literal('mean'), Type.Literal('mean_std'), Type.Null()]),
  },
  input: Type.Object({
    trajectories: Type.Array(
      Type.Object({
        id: Key,
        player: Key,
        /** The game; trajectories without one are of the same. */
        tag: Type.Optional(Key),
        turn_rewards: Type.Array(Type.Number()),
      }),
    ),
  }),
  run: ({ trajectories }, { gamma, advantage_norm }): Record<string, number[]> => {
    const seen = new Set(trajectories.map(({ id }) => String(id)));
    if (seen.size !== trajectories.length)
      refuseInput('trajectories', 'with an id of its own each', trajectories.length);
    const turns = trajectories.flatMap(({ player, tag, turn_rewards }) =>
      turn_rewards.map((reward) => ({
        player,
        tag: tag === undefined ? 'untagged' : `tag ${JSON.stringify(tag)}`,
        reward,
      })),
    );
    const groups = groupRows(
      turns.map(({ tag }) => tag),
      turns.map(({ player }) => player),
    );
    const { mean: baseline } = groupStatistics(
      groups,
      turns.map(({ reward }) => reward),
      0,
    );
    let turn = 0;
    const advantages = trajectories.map(({ turn_rewards }) =>
      fromTheEnd(
        turn_rewards.map((reward) => reward - baseline[groups.numbers[turn++]!]!),
        gamma,
      ),
    );
    const players = trajectories.map(({ player }) => player);
    const final =
      advantage_norm === null ? advantages : normByPlayer(players, advantages, advantage_norm === 'mean_std');
    return Object.fromEntries(trajectories.map(({ id }, i) => [String(id), final[i]!]));
  },
  judged: {
    over: 'group',
    reads: ['rewards', 'feedback'],
    writes: ['credits', 'scores'],
    /**
     * MARS: a trajectory is what one agent did in one episode, its turns are the steps that the episode went on from. The game is the tag
     * `game` of the episode, or of its task. The source's batch is the group, which is what is compared with each other: a mean over
     * whatever is judged together would change with the order of work.
     */
    each: (facts, ask) => {
      const ownReward = ownRewardsOf(facts, ask.params);
      const doubt = doubtIn(facts);
      return ({ members }) => {
        const trajectories = members.flatMap(({ episode, steps }) => {
          const onward = onwardOf(steps);
          const tag = gameOf(episode.tags) ?? gameOf(episode.task_tags);
          return [...groupBy(onward, (step) => step.agent ?? '')].map(([player, turns]) => ({
            turns,
            id: stepKey(episode.episode_id, player),
            player,
            tag: tag === null ? {} : { tag },
            turn_rewards: complete(turns.map(ownReward)),
          }));
        });
        return {
          input: {
            trajectories: trajectories.flatMap(({ id, player, tag, turn_rewards }) =>
              turn_rewards === null ? [] : [{ id, player, ...tag, turn_rewards }],
            ),
          },
          rows: (output) => {
            const judgements = new Map<StepFacts, Judgement>();
            for (const { turns, id, turn_rewards } of trajectories) {
              for (const [i, step] of turns.entries()) {
                const reason = doubt(step.episode_id);
                judgements.set(
                  step,
                  turn_rewards === null ? credit(step, null, 'missing_reward') : credit(step, output[id]![i]!, reason),
                );
              }
            }
            return members.flatMap(({ episode, steps }) =>
              steps.length === 0
                ? [noSteps(episode)]
                : steps.map((step) => judgements.get(step) ?? credit(step, null, 'not_chosen')),
            );
          },
        };
      };
    },
  },
});

function fromTheEnd(rewards: readonly number[], gamma: number): number[] {
  let after = 0;
  return rewards
    .toReversed()
    .map((reward) => {
      after = reward + gamma * after;
      return after;
    })
    .reverse();
}

function normByPlayer(
  players: readonly (string | number)[],
  advantages: readonly number[][],
  scaled: boolean,
): number[][] {
  const norms = new Map<string | number, (value: number) => number>();
  for (const [player, own] of groupBy([...players.keys()], (i) => players[i]!)) {
    const distinct = [...new Set(own.flatMap((i) => advantages[i]!.map((value) => Math.round(value * 1e12) / 1e12)))];
    const centre = mean(distinct);
    const scale = scaled ? standardDeviation(distinct, 1) + 1e-6 : 1;
    norms.set(player, distinct.length < 2 ? () => 0 : (value) => (value - centre) / scale);
  }
  return advantages.map((values, i) => values.map(norms.get(players[i]!)!));
}

const gameOf = (tags: Readonly<Record<string, unknown>> | null): string | null =>
  typeof tags?.game === 'string' ? tags.game : null;
