/**
 * Whether a round's answers agree enough to stop: more than two thirds of those who may speak give the same one.
 *
 * Source: SALT-NLP/DyLAN, code/demo/LLMLP.py. Verified (code). n is how many agents may speak in the round, not how many have; so 3 of 4,
 * but all 3 of 3. A null answer agrees with nobody.
 * Kept: floor(2n/3), strictly more. Dropped: who may speak in a round, which the ranker says. Open: nothing known.
 */

import { Type } from 'typebox';
import { groupBy } from '../../../../ingest/events/group-by.ts';
import { stepKey } from '../../judging/facts.ts';
import { credit, score } from '../../judging/judgement.ts';
import { textsOn } from '../../judging/named-feedback.ts';
import { overEpisodes } from '../../judging/over-episodes.ts';
import { onRounds, roundsOf } from '../../judging/rounds.ts';
import { method } from '../method.ts';
import { nullable } from '../shapes.ts';

export const dylanConsensus = method({
  name: 'dylan_consensus',
  kind: 'process',
  source: 'DyLAN: SALT-NLP/DyLAN, code/demo/LLMLP.py; verified (code)',
  version: 1,
  summary:
    'True iff one answer was given by more than two thirds of the agents; stored as 1 or 0 on each step of the round.',
  input: Type.Object({ answers: Type.Array(nullable(Type.String())), n: Type.Integer({ minimum: 1 }) }),
  run: ({ answers, n }): boolean => {
    const given = groupBy(
      answers.filter((answer) => answer !== null),
      (answer) => answer,
    );
    return [...given.values()].some((same) => same.length > Math.floor((2 * n) / 3));
  },
  judged: {
    reads: ['feedback', 'decisions'],
    writes: ['credits', 'scores'],
    /**
     * 1 for each step of a round that came to a consensus, 0 for one of another; the score of an episode is that of its last round. Who may
     * speak in a round is the latest decision of kind `speakers` for that turn, a list or a count; else every agent of the episode.
     */
    rows: (facts, ask) => {
      const answers = textsOn(facts.feedback, 'step', 'answer');
      return overEpisodes(facts, credit, ({ episode_id }, steps) => {
        const rounds = roundsOf(steps);
        if (typeof rounds === 'string') return rounds;
        const everybody = new Set(steps.map(({ agent }) => agent ?? '')).size;
        const eligible = (turn: number): number => {
          const decision = facts.decisions
            .get(episode_id)
            ?.findLast((one) => one.kind === 'speakers' && one.turn === turn)?.decision;
          if (Array.isArray(decision)) return decision.length;
          return typeof decision === 'number' ? decision : everybody;
        };
        const agreed: (boolean | null | string)[] = rounds.map((round) => {
          const own = [...round.values()].map((texts) => texts.at(-1)!);
          const given = own.map((step) => answers.get(stepKey(step.episode_id, step.step_id)) ?? null);
          if (given.every((answer) => answer === null)) return null;
          return ask.answer({ answers: given, n: eligible(own[0]!.turn!) });
        });
        const outcomeAt = (t: number): [number | null, string | null] => {
          const one = agreed[t];
          if (typeof one === 'boolean') return [Number(one), null];
          return [null, one ?? 'no_answers'];
        };
        return [
          score(`e/${episode_id}`, ...outcomeAt(rounds.length - 1), { rounds: agreed }),
          ...onRounds(steps, rounds, (_, t, step) => credit(step, ...outcomeAt(t))),
        ];
      });
    },
  },
});
