/**
 * Which of several generated samples is worth most: hard for a small model, easy for a large one, and better than its base.
 *
 * Source: Star-Agents, arXiv 2411.14497. Verified (text). The gap between the models' difficulties is divided by the batch's largest;
 * that all are 0 when the largest gap is not positive is our edge rule. The first wins a tie; without samples nothing is picked.
 * Kept: 0, 0.5 and 1 of the referee. Dropped: the referee and the two models. Open: a batch without a positive gap.
 */

import { Type } from 'typebox';
import { groupBy } from '../../../../ingest/events/group-by.ts';
import { type EpisodeFacts, groupOf, stepKey } from '../../judging/facts.ts';
import { type Judgement, score } from '../../judging/judgement.ts';
import { numbersOn, textsOn } from '../../judging/named-feedback.ts';
import { method } from '../method.ts';
import { requireRows } from '../refuse.ts';
import { largest } from '../statistics.ts';

const REFEREE = { base: 0, tie: 0.5, generated: 1 } as const;

type Picked = { readonly dual: readonly number[]; readonly score: readonly number[]; readonly pick: number | null };

export const starAgentsScore = method({
  name: 'star_agents_score',
  kind: 'score',
  source: 'Star-Agents: arXiv 2411.14497; verified (text)',
  version: 1,
  summary: 'Scores samples by the gap between two models’ difficulties and the referee, and picks the best.',
  input: Type.Object({
    ifd_small: Type.Array(Type.Number()),
    ifd_large: Type.Array(Type.Number()),
    referee: Type.Array(Type.Union([Type.Literal('base'), Type.Literal('tie'), Type.Literal('generated')])),
  }),
  run: ({ ifd_small, ifd_large, referee }): Picked => {
    requireRows('ifd_large', ifd_large, ifd_small.length, 'ifd_small');
    requireRows('referee', referee, ifd_small.length, 'ifd_small');
    const gaps = ifd_small.map((small, i) => small - ifd_large[i]!);
    const widest = largest(gaps);
    const dual = gaps.map((gap) => (widest > 0 ? gap / widest : 0));
    const score = dual.map((value, i) => value * REFEREE[referee[i]!]);
    return { dual, score, pick: score.length === 0 ? null : score.indexOf(largest(score)) };
  },
  judged: {
    reads: ['feedback'],
    /**
     * A batch is a group: the samples for one instruction, which are what is picked from. Feedback on the episode gives `ifd_small`,
     * `ifd_large` and `referee` (base, tie or generated). A sample that lacks one of them leaves the batch.
     */
    rows: (facts, ask) => {
      const small = numbersOn(facts.feedback, 'episode', 'ifd_small');
      const large = numbersOn(facts.feedback, 'episode', 'ifd_large');
      const referee = textsOn(facts.feedback, 'episode', 'referee');
      const sampleOf = ({ episode_id }: EpisodeFacts) => {
        const place = stepKey(episode_id, '');
        const [a, b, verdict] = [small.get(place), large.get(place), referee.get(place)];
        if (a === undefined || b === undefined) return 'no_ifd';
        return isReferee(verdict) ? { ifd_small: a, ifd_large: b, referee: verdict } : 'no_referee';
      };
      return [...groupBy(facts.episodes, groupOf)].flatMap(([, members]): Judgement[] => {
        const rows = members.map((episode) => ({ key: `e/${episode.episode_id}`, sample: sampleOf(episode) }));
        const known = rows.flatMap(({ key, sample }) => (typeof sample === 'string' ? [] : [{ key, sample }]));
        const output = ask.run({
          ifd_small: known.map(({ sample }) => sample.ifd_small),
          ifd_large: known.map(({ sample }) => sample.ifd_large),
          referee: known.map(({ sample }) => sample.referee),
        });
        const at = new Map(known.map(({ key }, i) => [key, i]));
        return rows.map(({ key, sample }) => {
          if (typeof sample === 'string') return score(key, null, sample);
          const i = at.get(key)!;
          return score(key, output.score[i]!, null, { dual: output.dual[i], picked: output.pick === i });
        });
      });
    },
  },
});

const isReferee = (verdict: string | undefined): verdict is keyof typeof REFEREE =>
  verdict !== undefined && Object.hasOwn(REFEREE, verdict);
