/**
 * Whether the critics of a run came to agree with its solution, and in which round.
 *
 * Source: jincan333/MAS-TTS, agentverse/…/decision_maker/vertical_solver_first.py. Verified (code).
 * Kept: a critic blocks iff it does not agree and its criticism text is not empty; a run whose last permitted round still has a
 * blocker is revised once more but never checked again, so it is not in consensus; rounds after the limit are ignored.
 * `content` may be the criticism text or the whole message: reading it again as criticism changes nothing.
 * Dropped: the outer turns and the CEO that recruits agents and gives a budget. Open: nothing known.
 */

import { Type } from 'typebox';
import { groupBy } from '../../../../ingest/events/group-by.ts';
import type { StepFacts } from '../../judging/facts.ts';
import { verdictOn } from '../../judging/judgement.ts';
import { isCritic, messagesOf } from '../../judging/messages.ts';
import { agrees, criticismText } from '../criticism.ts';
import { method } from '../method.ts';

type Consensus = {
  readonly pass: boolean;
  /** First round without a blocker, counted from 1; null when there is none. */
  readonly round: number | null;
};

export const consensusFilter = method({
  name: 'consensus_filter',
  kind: 'filter',
  source: 'M1-32B / M500: jincan333/MAS-TTS, vertical_solver_first.py; verified (code)',
  version: 1,
  summary: 'Passes a run whose critics reach a round without a blocking criticism.',
  params: { max_critic_iterations: 3 },
  limits: { max_critic_iterations: Type.Integer({ minimum: 0 }) },
  input: Type.Object({
    rounds: Type.Array(Type.Array(Type.Object({ agree: Type.Boolean(), content: Type.String() }))),
  }),
  run: ({ rounds }, { max_critic_iterations }): Consensus => {
    const free = rounds
      .slice(0, max_critic_iterations)
      .findIndex((critics) => critics.every(({ agree, content }) => agree || criticismText(content) === ''));
    return free < 0 ? { pass: false, round: null } : { pass: true, round: free + 1 };
  },
  judged: {
    reads: ['content'],
    /**
     * Critics are the messages of role critic. A round is a turn; in an episode that does not number all of them, the n-th message of each
     * critic belongs to round n.
     */
    rows: ({ episodes, steps, contentOf }, ask) => {
      const messages = messagesOf({ steps });
      return episodes.map((episode) => {
        const critics = (messages.get(episode.episode_id) ?? []).filter(isCritic);
        if (critics.length === 0) return verdictOn(episode, null, 'no_critics');
        const rounds = criticRounds(critics).map((round) =>
          round.map((step) => {
            const content = contentOf(step).text ?? '';
            return { agree: agrees(content), content };
          }),
        );
        const output = ask.run({ rounds });
        return verdictOn(episode, output.pass, output.pass ? null : 'no_consensus', output);
      });
    },
  },
});

function criticRounds(critics: readonly StepFacts[]): StepFacts[][] {
  const numbered = critics.every((step) => step.turn !== null);
  const messages = new Map<string, number>();
  const roundOf = (step: StepFacts): number => {
    if (numbered) return step.turn!;
    const nth = messages.get(step.agent ?? '') ?? 0;
    messages.set(step.agent ?? '', nth + 1);
    return nth;
  };
  return [...groupBy(critics, roundOf)].sort(([a], [b]) => a - b).map(([, round]) => round);
}
