/**
 * Whether one critic's message agrees with the proposed solution.
 *
 * Source: jincan333/MAS-TTS, agentverse/…/decision_maker/vertical_solver_first.py and the parser `mgsm-critic-agree`. Verified (code).
 * Kept: the literal, case-sensitive marker; a message with both markers agrees, one with none does not.
 * Dropped: nothing. Open: nothing known.
 */

import { Type } from 'typebox';
import { groupBy } from '../../../../ingest/events/group-by.ts';
import { type Judgement, verdictOn } from '../../judging/judgement.ts';
import { isCritic } from '../../judging/messages.ts';
import { agrees } from '../criticism.ts';
import { method } from '../method.ts';

export const criticAgrees = method({
  name: 'critic_agrees',
  kind: 'filter',
  source: 'M1-32B / M500: jincan333/MAS-TTS, vertical_solver_first.py and critic output parser; verified (code)',
  version: 1,
  summary: 'True iff the critic message holds the marker [Agree].',
  input: Type.Object({ text: Type.String() }),
  run: ({ text }): boolean => agrees(text),
  judged: {
    reads: ['content'],
    /** A verdict on each critic's message; an episode without critics has its reason. */
    rows: ({ episodes, steps, contentOf }, ask) => {
      const critics = groupBy(steps.filter(isCritic), (step) => step.episode_id);
      return episodes.flatMap((episode): Judgement[] => {
        const own = critics.get(episode.episode_id);
        if (own === undefined) return [verdictOn(episode, null, 'no_critics')];
        return own.map((step) => {
          const { text } = contentOf(step);
          if (text === null) return verdictOn(step, null, 'no_text');
          const agreed = ask.run({ text });
          return verdictOn(step, agreed, agreed ? null : 'disagrees');
        });
      });
    },
  },
});
