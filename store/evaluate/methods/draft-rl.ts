/** DRAFT-RL (arXiv 2511.20468): agents write chains of draft, and peers grade them. */

import { Type } from 'typebox';
import { groupBy } from '../../../ingest/events/group-by.ts';
import { groupOf, type StepFacts, stepKey } from '../judging/facts.ts';
import { reward, verdictOn } from '../judging/judgement.ts';
import { numberOf, numbersOn, truthsOn } from '../judging/named-feedback.ts';
import { method } from './method.ts';
import { Key } from './shapes.ts';
import { mean } from './statistics.ts';

const STEP = /^(?:step\s*)?\d+[.) :]\s*(\S.*)$/i;
const ANSWER = /^(?:final|answer)\s*:\s*\S/i;
const WORD = /[A-Za-z0-9]+(?:[-'][A-Za-z0-9]+)?/g;

/** Whether it has a step and an answer, and no step has more words than that. Lines of another form do not count. */
export function isChainOfDraft(text: string, mostWords: number): boolean {
  const lines = text.split('\n').map((line) => line.trim());
  const steps = lines.flatMap((line) => STEP.exec(line)?.[1] ?? []);
  return (
    steps.length > 0 &&
    lines.some((line) => ANSWER.test(line)) &&
    steps.every((step) => (step.match(WORD)?.length ?? 0) <= mostWords)
  );
}

const Score = Type.Number({ minimum: 0, maximum: 1 });

/**
 * What a draft earns in DRAFT-RL: being right, what its peers give it, and keeping to the form of a draft.
 *
 * Source: DRAFT-RL, arXiv 2511.20468; ArthasTY/DRAFT-RL-Multi-Agent-Chain-of-Draft-…, src/draftrl/smoke.py (`observed_reward`), commit 06b2bd3.
 * Verified (code). Each part lies between −1 and 1: right or wrong, twice the distance of the peers' mean from a half, in form or not.
 * Kept: the weights 1, 0.2 and 0.1 of its small profiles, as parameters; the limit of five words a step.
 * Dropped: its five criteria, of which only the overall score counts here. Open: the weights of the paper's own runs; a draft without a
 * peer's score counts there as one with 0, here it has no reward.
 */
export const draftRlReward = method({
  name: 'draft_rl_reward',
  kind: 'reward',
  source: 'DRAFT-RL: ArthasTY/DRAFT-RL-…, src/draftrl/smoke.py; arXiv 2511.20468; verified (code)',
  version: 1,
  summary: 'Of each draft: right or wrong, what its peers give it, and whether it has the form of a draft, weighted.',
  teams: 'agents whose drafts peers grade',
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

type DraftSelection = {
  /** Positions of the drafts that are first among those of their agent and query, in order. */
  readonly local: readonly number[];
  /** Of the drafts that are first of all of their query. */
  readonly global: readonly number[];
};

/**
 * Which draft of each agent is learned from in DRAFT-RL: the one that the reward model ranks first among those in form.
 *
 * Source: DRAFT-RL, arXiv 2511.20468; ArthasTY/DRAFT-RL-Multi-Agent-Chain-of-Draft-…, src/draftrl/smoke.py (`rank_candidates`), commit 06b2bd3.
 * Verified (code). A draft in form comes before any other, then the greater score, then the one that came first. The first of an agent
 * is learned from, the first of all is the answer of the team.
 * Kept: both selections; where no draft is in form the best of the others is taken. Dropped: the reward model itself, whose score is feedback;
 * a policy with a value head is one. Open: nothing known.
 */
export const draftRlSelect = method({
  name: 'draft_rl_select',
  kind: 'filter',
  source: 'DRAFT-RL: ArthasTY/DRAFT-RL-…, src/draftrl/smoke.py; arXiv 2511.20468; verified (code)',
  version: 1,
  summary: 'Keeps of each agent and query the draft with the greatest score among those in form.',
  teams: 'agents whose drafts peers grade',
  params: { words: 5 },
  limits: { words: Type.Integer({ minimum: 1 }) },
  input: Type.Object({
    drafts: Type.Array(Type.Object({ query: Key, agent: Key, text: Type.String(), score: Type.Number() })),
  }),
  run: ({ drafts }, { words }): DraftSelection => {
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
