/**
 * Picks traces so that no category takes more than its turn.
 *
 * Source: the M500 text names diversity as a criterion and publishes no algorithm; this one is ours. Unverified.
 * Each category is sorted by score, best first (stable), then the categories are visited in ascending name order, one item a visit.
 * Kept: the criterion. Dropped: nothing. Open: the algorithm.
 */

import { Type } from 'typebox';
import { groupBy } from '../../../../ingest/events/group-by.ts';
import { verdictOn } from '../../judging/judgement.ts';
import { survivors, textTag } from '../../judging/played.ts';
import { method } from '../method.ts';
import { Key } from '../shapes.ts';
import { stableOrder } from '../statistics.ts';

export const diversitySelect = method({
  name: 'diversity_select',
  kind: 'filter',
  source: 'ours, for the diversity criterion of M500 (MAS-TTS); unverified',
  version: 1,
  summary: 'Takes the best of each category in turn until n are taken.',
  params: { n: 500 },
  limits: { n: Type.Integer({ minimum: 0 }) },
  input: Type.Object({
    items: Type.Array(Type.Object({ id: Key, category: Type.String(), score: Type.Number() })),
  }),
  run: ({ items }, { n }): (string | number)[] => {
    const byCategory = groupBy(items, ({ category }) => category);
    const queues = [...byCategory.keys()].sort(byCodeUnits).map((category) => {
      const members = byCategory.get(category)!;
      return stableOrder(members, ({ score }) => score, 'descending').map((i) => members[i]!.id);
    });
    const longest = queues.reduce((most, queue) => Math.max(most, queue.length), 0);
    const rounds = Array.from({ length: longest }, (_, round) =>
      queues.flatMap((queue) => queue.slice(round, round + 1)),
    );
    return rounds.flat().slice(0, n);
  },
  judged: {
    scope: () => 'set',
    /**
     * Chooses among the episodes that every filter before kept. The category is the tag `category` of the task, else its domain; the score
     * is the reward of the episode. Over the set: a category's turn depends on all others.
     */
    rows: (facts, ask) => {
      const known = survivors(facts);
      const rows = facts.episodes.map((episode) => {
        const category = textTag(episode.task_tags, 'category') ?? episode.domain;
        const reason = !known.has(episode.episode_id)
          ? 'dropped_before'
          : category === null
            ? 'no_category'
            : episode.reward === null
              ? 'missing_reward'
              : null;
        return { episode, category, reason };
      });
      const items = rows.flatMap(({ episode: { episode_id: id, reward: score }, category, reason }) =>
        reason !== null || category === null || score === null ? [] : [{ id, category, score }],
      );
      const taken = new Map(ask.run({ items }).map((id, place) => [id, place]));
      return rows.map(({ episode, category, reason }) => {
        if (reason !== null) return verdictOn(episode, reason === 'dropped_before' ? false : null, reason);
        const place = taken.get(episode.episode_id);
        return verdictOn(episode, place !== undefined, place === undefined ? 'not_taken' : null, {
          category,
          ...(place === undefined ? {} : { place }),
        });
      });
    },
  },
});

function byCodeUnits(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
