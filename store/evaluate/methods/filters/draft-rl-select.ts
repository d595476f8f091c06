/**
 * Which draft of each agent is learned from in DRAFT-RL: the one that the reward model ranks first among those in form.
 *
 * Source: DRAFT-RL, arXiv 2511.20468; ArthasTY/DRAFT-RL-Multi-Agent-Chain-of-Draft-…, src/draftrl/smoke.py (`rank_candidates`), commit 06b2bd3.
 * Verified (code). A draft in form comes before any other, then the greater score, then the one that came first. The first of an agent
 * is learned from, the first of all is the answer of the team.
 * Kept: both selections; where no draft is in form the best of the others is taken. Dropped: the reward model itself, whose score is feedback;
 * a policy with a value head is one. Open: nothing known.
 */

import { Type } from 'typebox';
import { groupBy } from '../../../../ingest/events/group-by.ts';
import { groupOf, type StepFacts, stepKey } from '../../judging/facts.ts';
import { verdictOn } from '../../judging/judgement.ts';
import { numbersOn } from '../../judging/named-feedback.ts';
import { isChainOfDraft } from '../chain-of-draft.ts';
import { method } from '../method.ts';
import { Key } from '../shapes.ts';

type Selected = {
  /** Positions of the drafts that are first among those of their agent and query, in order. */
  readonly local: readonly number[];
  /** Of the drafts that are first of all of their query. */
  readonly global: readonly number[];
};

export const draftRlSelect = method({
  name: 'draft_rl_select',
  kind: 'filter',
  source: 'DRAFT-RL: ArthasTY/DRAFT-RL-…, src/draftrl/smoke.py; arXiv 2511.20468; verified (code)',
  version: 1,
  summary: 'Keeps of each agent and query the draft with the greatest score among those in form.',
  params: { words: 5 },
  limits: { words: Type.Integer({ minimum: 1 }) },
  input: Type.Object({
    drafts: Type.Array(Type.Object({ query: Key, agent: Key, text: Type.String(), score: Type.Number() })),
  }),
  run: ({ drafts }, { words }): Selected => {
    const ranked = drafts
      .map(({ text, ...draft }, place) => ({ ...draft, place, inForm: Number(isChainOfDraft(text, words)) }))
      .sort((a, b) => b.inForm - a.inForm || b.score - a.score || a.place - b.place);
    const firsts = (key: (draft: (typeof ranked)[number]) => string) =>
      [...groupBy(ranked, key).values()].map(([first]) => first!.place).sort((a, b) => a - b);
    return {
      local: firsts(({ query, agent }) => JSON.stringify([query, agent])),
      global: firsts(({ query }) => JSON.stringify(query)),
    };
  },
  judged: {
    reads: ['feedback', 'content'],
    /** A draft is a step with a `value`, its score; its query is its group. */
    rows: (facts, ask) => {
      const scores = numbersOn(facts.feedback, 'step', 'value');
      const groups = new Map(facts.episodes.map((episode) => [episode.episode_id, groupOf(episode)]));
      const drafts: { readonly step: StepFacts; readonly row: Parameters<typeof ask.run>[0]['drafts'][number] }[] = [];
      for (const step of facts.steps) {
        const score = scores.get(stepKey(step.episode_id, step.step_id));
        const { text } = facts.contentOf(step);
        if (score === undefined || text === null) continue;
        drafts.push({ step, row: { query: groups.get(step.episode_id)!, agent: step.agent ?? '', text, score } });
      }
      const { local, global } = ask.run({ drafts: drafts.map(({ row }) => row) });
      const [chosen, first] = [new Set(local), new Set(global)];
      const places = new Map(drafts.map(({ step }, i) => [step, i]));
      return facts.steps.map((step) => {
        const place = places.get(step);
        if (place === undefined) return verdictOn(step, null, 'no_score');
        const keep = chosen.has(place);
        return verdictOn(step, keep, keep ? null : 'another_draft', { global: first.has(place) });
      });
    },
  },
});
