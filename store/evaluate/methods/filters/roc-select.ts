/**
 * GRPO-RoC: from an oversampled group, keeps the cleanest successes and as many failures as their share was.
 *
 * Source: microsoft/rStar, rstar2_agent/down_sample/roc.py. Verified (code).
 * Kept: quotas rounded half to even, minimum counts, all rows when neither quota reaches its minimum, and a group as large as n whole.
 * The paper draws failures at random, the code takes the first: `failure_order` offers both, `seeded` with the seed handed in.
 * Quotas that do not add up to n (possible with an odd n and two exact halves) are an error, as in the source.
 * A row without a reward is not selected and not counted.
 * Dropped: the mask that restores the order of the batch. Open: nothing known.
 */

import { uniformInt } from 'pure-rand/distribution/uniformInt';
import { xoroshiro128plus } from 'pure-rand/generator/xoroshiro128plus';
import { Type } from 'typebox';
import { groupBy } from '../../../../ingest/events/group-by.ts';
import { groupOf } from '../../judging/facts.ts';
import { type Judgement, verdictOn } from '../../judging/judgement.ts';
import { stepsOf, tagInput, toolInput } from '../../judging/penalties.ts';
import { method } from '../method.ts';
import { refuseInput, requireRows } from '../refuse.ts';
import { formatPenalty, toolPenalty } from '../roc.ts';
import { Reward } from '../shapes.ts';
import { roundHalfEven, stableOrder } from '../statistics.ts';

const params: { n: number; min_zero: number; min_nonzero: number; failure_order: 'first' | 'seeded'; seed: number } = {
  n: 16,
  min_zero: 2,
  min_nonzero: 2,
  failure_order: 'first',
  seed: 0,
};
const Count = Type.Integer({ minimum: 0 });

export const rocSelect = method({
  name: 'roc_select',
  kind: 'filter',
  source: 'GRPO-RoC: microsoft/rStar, down_sample/roc.py; verified (code)',
  version: 1,
  summary: 'Keeps n rows of a group: the successes with the lowest penalties, then failures.',
  params,
  limits: {
    n: Type.Integer({ minimum: 1 }),
    min_zero: Count,
    min_nonzero: Count,
    failure_order: Type.Union([Type.Literal('first'), Type.Literal('seeded')]),
    seed: Type.Integer(),
  },
  input: Type.Object({ rewards: Type.Array(Reward), penalties: Type.Array(Type.Number()) }),
  run: ({ rewards, penalties }, { n, min_zero, min_nonzero, failure_order, seed }): number[] => {
    requireRows('penalties', penalties, rewards.length, 'rewards');
    const rows = [...rewards.keys()].filter((row) => rewards[row] !== null);
    const size = rows.length;
    if (size < n) return [];
    if (size === n) return rows;
    const failures = rows.filter((row) => rewards[row]! <= 0);
    const successes = rows.filter((row) => rewards[row]! > 0);
    let zeros = roundHalfEven((failures.length * n) / size);
    let positives = roundHalfEven((successes.length * n) / size);
    if (zeros < min_zero && positives < min_nonzero) return rows;
    const fewestZeros = Math.min(min_zero, failures.length);
    if (zeros <= fewestZeros) {
      zeros = fewestZeros;
      positives = n - zeros;
    }
    const fewestPositives = Math.min(min_nonzero, successes.length);
    if (positives <= fewestPositives) {
      positives = fewestPositives;
      zeros = n - positives;
    }
    if (
      zeros + positives !== n ||
      zeros < 0 ||
      positives < 0 ||
      zeros > failures.length ||
      positives > successes.length
    ) {
      refuseInput('n', `a size that ${successes.length} successes and ${failures.length} failures can be cut to`, n);
    }
    const cleanest = stableOrder(successes, (row) => penalties[row]!, 'ascending').map((i) => successes[i]!);
    const chosen = failure_order === 'first' ? failures : shuffled(failures, seed);
    return [...cleanest.slice(0, positives), ...chosen.slice(0, zeros)];
  },
  judged: {
    reads: ['tools', 'content'],
    /** The penalty of an episode is the sum of both penalties; one that has not both, or no reward, leaves its group. */
    rows: (facts, ask) => {
      const own = stepsOf(facts);
      return [...groupBy(facts.episodes, groupOf)].flatMap(([, members]): Judgement[] => {
        const rows = members.map((episode) => {
          const [tool, tags] = [toolInput(facts, episode), tagInput(facts, own(episode))];
          if (episode.reward === null) return { episode, reason: 'missing_reward' };
          if (typeof tool === 'string' || typeof tags === 'string')
            return { episode, reason: typeof tool === 'string' ? tool : (tags as string) };
          const penalties = {
            tool_penalty: toolPenalty(tool.tool_responses),
            format_penalty: formatPenalty(tags),
          };
          return { episode, penalties };
        });
        const known = rows.flatMap(({ episode, penalties }) => (penalties ? [{ episode, penalties }] : []));
        const output = ask.answer({
          rewards: known.map(({ episode }) => episode.reward),
          penalties: known.map(({ penalties }) => penalties.tool_penalty + penalties.format_penalty),
        });
        const kept = new Set(typeof output === 'string' ? [] : output.map((i) => known[i]!.episode));
        return rows.map(({ episode, reason, penalties }) => {
          if (reason !== undefined) return verdictOn(episode, null, reason);
          if (typeof output === 'string') return verdictOn(episode, null, output, penalties);
          return verdictOn(episode, kept.has(episode), kept.has(episode) ? null : 'dropped', penalties);
        });
      });
    },
  },
});

function shuffled(rows: readonly number[], seed: number): number[] {
  const random = xoroshiro128plus(seed);
  const order = [...rows];
  for (let last = order.length - 1; last > 0; last--) {
    const other = uniformInt(random, 0, last);
    [order[last], order[other]] = [order[other]!, order[last]!];
  }
  return order;
}
