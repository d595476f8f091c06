/**
 * Whether a multi-agent system rewritten for one query replaces the one it came from.
 *
 * Source: MAS-GPT, arXiv 2503.03686. Secondary. The rewrite itself is a model's work; only the decision is made here.
 * A rewrite that was never scored is not accepted.
 * Kept: a rewrite that scores no worse replaces its base. Dropped: the rewrite and the reasoning that links it to the
 * query. Open: read in a secondary account only.
 */

import { Type } from 'typebox';
import { refinedPairs } from '../../consistency/refined-teams.ts';
import { stepKey } from '../../judging/facts.ts';
import { verdictOn } from '../../judging/judgement.ts';
import { played, textTag } from '../../judging/played.ts';
import { acceptsRewrite } from '../mas-gpt.ts';
import { method } from '../method.ts';
import { nullable } from '../shapes.ts';

export const intraConsistencyAccept = method({
  name: 'intra_consistency_accept',
  kind: 'filter',
  source: 'MAS-GPT: arXiv 2503.03686; secondary',
  version: 2,
  summary: 'Accepts a rewrite that executes and scores no worse than its base.',
  input: Type.Object({
    base_score: Type.Number(),
    refined_score: nullable(Type.Number()),
    executable: Type.Boolean(),
  }),
  run: (rewrite): boolean => acceptsRewrite(rewrite),
  judged: {
    reads: ['teams'],
    // The team that it was made from may have played the task in another group.
    scope: () => 'set',
    /**
     * A refinement is a team whose tag `base_team_id` names the team that it was made from; both were played on the task. The verdict is on
     * each episode that the refinement played there.
     */
    rows: ({ episodes, teams }) => {
      const pairs = refinedPairs(episodes.map(played), [...teams.values()]);
      const found = new Map(pairs.map((pair) => [stepKey(pair.task_id, pair.team_id), pair]));
      return episodes.map((episode) => {
        const { task_id, team_id } = episode;
        if (task_id === null || team_id === null)
          return verdictOn(episode, null, task_id === null ? 'no_task' : 'no_team');
        const { tags, unmapped } = teams.get(team_id) ?? {};
        const base = textTag(tags ?? null, 'base_team_id') ?? textTag(unmapped ?? null, 'base_team_id');
        if (base === null) return verdictOn(episode, null, 'not_a_refinement');
        const pair = found.get(stepKey(task_id, team_id));
        if (pair === undefined) return verdictOn(episode, null, 'no_base_score');
        const { accepted, base_score, refined_score, executable, base_team_id } = pair;
        const reason = !executable ? 'not_executable' : refined_score === null ? 'never_scored' : 'worse_than_base';
        return verdictOn(episode, accepted, accepted ? null : reason, {
          base_team_id,
          base_score,
          refined_score,
          executable,
        });
      });
    },
  },
});
