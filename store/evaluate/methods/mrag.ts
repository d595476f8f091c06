/**
 * mRAG self-training: the best trajectory of each query, if it is good enough.
 *
 * Source: arXiv 2506.10844. Secondary; whether the best of a query, all above a threshold, or both is unverified: both here.
 * The first wins a tie. The threshold 0.5 is ours. A trajectory without a reward cannot be best.
 * Kept: one trajectory a query. Dropped: the reward model and the training of each agent. Open: best, threshold or
 * both.
 */

import { Type } from 'typebox';
import { groupBy } from '../../../ingest/events/group-by.ts';
import { groupOf, stepKey } from '../judging/facts.ts';
import { verdictOn } from '../judging/judgement.ts';
import { numbersOn } from '../judging/named-feedback.ts';
import { method } from './method.ts';
import { Key, Reward } from './shapes.ts';

export const mragSelect = method({
  name: 'mrag_select',
  kind: 'filter',
  source: 'mRAG: arXiv 2506.10844; secondary',
  version: 1,
  summary: 'Keeps the highest-rewarded trajectory of each query, if its reward reaches the threshold.',
  params: { threshold: 0.5 },
  input: Type.Object({ trajectories: Type.Array(Type.Object({ id: Key, query: Key, reward: Reward })) }),
  run: ({ trajectories }, { threshold }): (string | number)[] =>
    [...groupBy(trajectories, ({ query }) => query).values()].flatMap((runs) => {
      const rewarded = runs.filter(({ reward }) => reward !== null);
      const best = rewarded.find(({ reward }) => rewarded.every((other) => other.reward! <= reward!));
      return best !== undefined && best.reward! >= threshold ? [best.id] : [];
    }),
  judged: {
    reads: ['feedback'],
    /**
     * A query is a group. The reward is the sum of a judge's `correctness` and `faithfulness`; in a query where no run has
     * either it is the recorded reward.
     */
    rows: (facts, ask) => {
      const correctness = numbersOn(facts.feedback, 'episode', 'correctness');
      const faithfulness = numbersOn(facts.feedback, 'episode', 'faithfulness');
      return [...groupBy(facts.episodes, groupOf)].flatMap(([query, members]) => {
        const parts = members.map(({ episode_id }) => {
          const place = stepKey(episode_id, '');
          return [correctness.get(place) ?? null, faithfulness.get(place) ?? null] as const;
        });
        const judged = parts.some(([right, faithful]) => right !== null || faithful !== null);
        const rewardOf = (i: number): number | null => {
          const [right, faithful] = parts[i]!;
          if (!judged) return members[i]!.reward;
          return right === null || faithful === null ? null : right + faithful;
        };
        const trajectories = members.map(({ episode_id }, i) => ({ id: episode_id, query, reward: rewardOf(i) }));
        const kept = new Set(ask.run({ trajectories }));
        return members.map((episode, i) => {
          const reward = rewardOf(i);
          if (reward === null) return verdictOn(episode, null, judged ? 'no_judge_score' : 'missing_reward');
          const keep = kept.has(episode.episode_id);
          return verdictOn(episode, keep, keep ? null : 'not_selected', { reward });
        });
      });
    },
  },
});
