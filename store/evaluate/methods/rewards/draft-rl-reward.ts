/**
 * What a draft earns in DRAFT-RL: being right, what its peers give it, and keeping to the form of a draft.
 *
 * Source: DRAFT-RL, arXiv 2511.20468; ArthasTY/DRAFT-RL-Multi-Agent-Chain-of-Draft-…, src/draftrl/smoke.py (`observed_reward`), commit 06b2bd3.
 * Verified (code). Each part lies between −1 and 1: right or wrong, twice the distance of the peers' mean from a half, in form or not.
 * Kept: the weights 1, 0.2 and 0.1 of its small profiles, as parameters; the limit of five words a step.
 * Dropped: its five criteria, of which only the overall score counts here. Open: the weights of the paper's own runs; a draft without a
 * peer's score counts there as one with 0, here it has no reward.
 */

import { Type } from 'typebox';
import { groupBy } from '../../../../ingest/events/group-by.ts';
import { stepKey } from '../../judging/facts.ts';
import { reward } from '../../judging/judgement.ts';
import { numberOf, truthsOn } from '../../judging/named-feedback.ts';
import { isChainOfDraft } from '../chain-of-draft.ts';
import { method } from '../method.ts';
import { mean } from '../statistics.ts';

const Score = Type.Number({ minimum: 0, maximum: 1 });

export const draftRlReward = method({
  name: 'draft_rl_reward',
  kind: 'reward',
  source: 'DRAFT-RL: ArthasTY/DRAFT-RL-…, src/draftrl/smoke.py; arXiv 2511.20468; verified (code)',
  version: 1,
  summary: 'Of each draft: right or wrong, what its peers give it, and whether it has the form of a draft, weighted.',
  params: { task: 1, peer: 0.2, form: 0.1, words: 5 },
  limits: { words: Type.Integer({ minimum: 1 }) },
  input: Type.Object({
    drafts: Type.Array(
      Type.Object({ text: Type.String(), correct: Type.Boolean(), peers: Type.Array(Score, { minItems: 1 }) }),
    ),
  }),
  run: ({ drafts }, { task, peer, form, words }): number[] =>
    drafts.map(
      ({ text, correct, peers }) =>
        task * (correct ? 1 : -1) + peer * 2 * (mean(peers) - 0.5) + form * (isChainOfDraft(text, words) ? 1 : -1),
    ),
  judged: {
    reads: ['feedback', 'content'],
    /** A draft is a step with `correct`; the last `peer_score` of each annotator counts. */
    rows: (facts, ask) => {
      const correct = truthsOn(facts.feedback, 'step', 'correct');
      const scores = groupBy(
        [...facts.feedback].flatMap(([episode, all]) =>
          all.flatMap((fact) =>
            fact.target_kind === 'step' && fact.name === 'peer_score' && numberOf(fact) !== null
              ? [{ key: stepKey(episode, fact.target_id ?? ''), by: fact.annotator ?? '', value: numberOf(fact)! }]
              : [],
          ),
        ),
        ({ key }) => key,
      );
      return facts.steps.map((step) => {
        const key = stepKey(step.episode_id, step.step_id);
        const right = correct.get(key);
        if (right === undefined) return reward(step, null, 'not_graded');
        const given = scores.get(key);
        if (given === undefined) return reward(step, null, 'no_peer_score');
        const peers = [...groupBy(given, ({ by }) => by).values()].map((own) => own.at(-1)!.value);
        const { text } = facts.contentOf(step);
        if (text === null) return reward(step, null, 'no_text');
        const output = ask.answer({ drafts: [{ text, correct: right, peers }] });
        return typeof output === 'string' ? reward(step, null, output) : reward(step, output[0]!, null);
      });
    },
  },
});
