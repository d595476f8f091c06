/**
 * Keeps the candidates whose behaviour more than half of their group shares.
 *
 * Source: ours, after the consensus filter of M500 (jincan333/MAS-TTS), for outputs that can be run instead of argued about.
 * A null behaviour counts towards the size of its group and agrees with nobody.
 */

import { Type } from 'typebox';
import { groupBy } from '../../../../ingest/events/group-by.ts';
import { stepKey } from '../../judging/facts.ts';
import { method } from '../method.ts';
import { Key, nullable } from '../shapes.ts';
import { type Verdict, verdict } from '../verdict.ts';

export const majorityFilter = method({
  name: 'majority_filter',
  kind: 'filter',
  source: 'ours, after the consensus filter of M500 (jincan333/MAS-TTS)',
  version: 1,
  summary: 'Keeps candidates whose behaviour is that of more than half of their group.',
  input: Type.Object({
    candidates: Type.Array(Type.Object({ id: Key, group: Key, behaviour: nullable(Type.String()) })),
  }),
  run: ({ candidates }): Verdict[] => {
    const majorities = new Map<string | number, string | null>();
    for (const [group, members] of groupBy(candidates, (one) => one.group)) {
      const behaviours = groupBy(members, (one) => one.behaviour);
      const found = [...behaviours].find(([name, same]) => name !== null && same.length * 2 > members.length);
      majorities.set(group, found?.[0] ?? null);
    }
    return candidates.map(({ id, group, behaviour }) => {
      const majority = majorities.get(group) ?? null;
      if (majority === null) return verdict(id, 'no_majority');
      return verdict(id, behaviour === majority ? null : 'minority');
    });
  },
  judged: {
    reads: ['content', 'reports'],
    rows: ({ episodes, steps, reports, survives }, ask) => {
      const facts = new Map(episodes.map((episode) => [episode.episode_id, episode]));
      const roles = new Map(steps.map((step) => [stepKey(step.episode_id, step.step_id), step.role]));
      const candidates = [...reports].flatMap(([episodeId, report]) =>
        [...report.programs.filter((p) => !p.reference), ...report.tests.filter((t) => !t.ground_truth && !t.public)]
          .filter((member) => survives(episodeId, String(member.id)))
          .map((member) => ({
            id: stepKey(episodeId, String(member.id)),
            group: stepKey(
              facts.get(episodeId)?.task_id ?? episodeId,
              roles.get(stepKey(episodeId, String(member.id))) ?? '',
            ),
            behaviour: member.behaviour ?? null,
          })),
      );
      return ask.run({ candidates }).map(({ id, keep, reason }) => {
        const [episode_id = '', step_id = ''] = String(id).split('\u0000');
        return { table: 'verdicts', episode_id, step_id, keep, reason };
      });
    },
  },
});
