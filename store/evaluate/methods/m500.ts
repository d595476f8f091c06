/** M500 (jincan333/MAS-TTS): which traces of a debate become training data. */

import { Type } from 'typebox';
import { groupBy } from '../../../ingest/events/group-by.ts';
import { type StepFacts, textOfTruth } from '../judging/facts.ts';
import { type Judgement, score, verdictOn } from '../judging/judgement.ts';
import { answersOf, isChoice, isCritic, messagesOf, textScore } from '../judging/messages.ts';
import { survivors, textTag } from '../judging/played.ts';
import { normalised, sameAnswer } from './answer.ts';
import { hasBox, lastBox } from './boxed.ts';
import { method } from './method.ts';
import { Key, nullable } from './shapes.ts';
import { stableOrder } from './statistics.ts';

/** True iff the text holds the literal token `[Agree]`, in this case and spelling; `[Disagree]` beside it changes nothing. */
export function agrees(text: string): boolean {
  return text.includes('[Agree]');
}

/**
 * The text of a critic that does not agree: runs of newlines made one, every `[Disagree]` removed, ends trimmed; empty for one that agrees.
 * A critic whose criticism is empty does not block. Source: jincan333/MAS-TTS, output parser `mgsm-critic-agree`.
 */
export function criticismText(text: string): string {
  if (agrees(text)) return '';
  return text.replace(/\n+/g, '\n').replaceAll('[Disagree]', '').trim();
}

/**
 * Whether one critic's message agrees with the proposed solution.
 *
 * Source: jincan333/MAS-TTS, agentverse/…/decision_maker/vertical_solver_first.py and the parser `mgsm-critic-agree`. Verified (code).
 * Kept: the literal, case-sensitive marker; a message with both markers agrees, one with none does not.
 * Dropped: nothing. Open: nothing known.
 */
export const criticAgrees = method({
  name: 'critic_agrees',
  kind: 'filter',
  source: 'M1-32B / M500: jincan333/MAS-TTS, vertical_solver_first.py and critic output parser; verified (code)',
  version: 1,
  summary: 'True iff the critic message holds the marker [Agree].',
  teams: 'solver and critics',
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

type Consensus = {
  readonly pass: boolean;
  /** First round without a blocker, counted from 1; null when there is none. */
  readonly round: number | null;
};

/**
 * Whether the critics of a run came to agree with its solution, and in which round.
 *
 * Source: jincan333/MAS-TTS, agentverse/…/decision_maker/vertical_solver_first.py. Verified (code).
 * Kept: a critic blocks iff it does not agree and its criticism text is not empty; a run whose last permitted round still has a
 * blocker is revised once more but never checked again, so it is not in consensus; rounds after the limit are ignored.
 * `content` may be the criticism text or the whole message: reading it again as criticism changes nothing.
 * Dropped: the outer turns and the CEO that recruits agents and gives a budget. Open: nothing known.
 */
export const consensusFilter = method({
  name: 'consensus_filter',
  kind: 'filter',
  source: 'M1-32B / M500: jincan333/MAS-TTS, vertical_solver_first.py; verified (code)',
  version: 1,
  summary: 'Passes a run whose critics reach a round without a blocking criticism.',
  teams: 'solver and critics',
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

type Format = {
  readonly pass: boolean;
  /** Positions of the messages that break the rule, counted from 0. */
  readonly bad: readonly number[];
};

/**
 * Whether every message of a run thinks inside `<think>…</think>`, and answers inside `\boxed{…}` where it must.
 *
 * Source: the description of M500 in MAS-TTS. The rule is secondary; exactly one pair of tags and a non-blank thought are our
 * tightening, unverified. A box counts only after `</think>`, and only if it closes.
 * Kept: thoughts inside their tags, a box where an answer is asked for. Dropped: nothing. Open: exactly one pair, and
 * that a thought is not blank.
 */
export const formatFilter = method({
  name: 'format_filter',
  kind: 'filter',
  source: 'M500: MAS-TTS, data description; rule secondary, exactly-once and non-blank unverified',
  version: 1,
  summary: 'Passes a run whose messages each have one thought, and a boxed answer where needed.',
  input: Type.Object({
    messages: Type.Array(Type.Object({ text: Type.String(), needs_box: Type.Optional(Type.Boolean()) })),
  }),
  run: ({ messages }): Format => {
    const bad = messages.flatMap(({ text, needs_box }, i) => (wellFormed(text, needs_box === true) ? [] : [i]));
    return { pass: bad.length === 0, bad };
  },
  judged: {
    reads: ['content'],
    /** The last message must box its answer. */
    rows: ({ episodes, steps, contentOf }, ask) => {
      const messages = messagesOf({ steps });
      return episodes.map((episode) => {
        const texts = (messages.get(episode.episode_id) ?? []).map((step) => contentOf(step).text ?? '');
        if (texts.length === 0) return verdictOn(episode, null, 'no_messages');
        const marked = texts.map((text, i) => ({ text, needs_box: i === texts.length - 1 }));
        const output = ask.run({ messages: marked });
        return verdictOn(episode, output.pass, output.pass ? null : 'bad_format', output);
      });
    },
  },
});

function wellFormed(text: string, needsBox: boolean): boolean {
  const open = onlyIndexOf(text, '<think>');
  const close = onlyIndexOf(text, '</think>');
  if (open < 0 || close < open) return false;
  if (text.slice(open + '<think>'.length, close).trim() === '') return false;
  return !needsBox || hasBox(text, close);
}

/** Where the token stands if it occurs exactly once, otherwise −1. */
function onlyIndexOf(text: string, token: string): number {
  const at = text.indexOf(token);
  return at === text.lastIndexOf(token) ? at : -1;
}

/**
 * The final answer of a text: what its last `\boxed{…}` holds.
 *
 * Source: MAS-TTS, description of M500. Secondary. Braces are counted as they stand; an escaped brace counts like any other.
 * Kept: the last box, braces counted. Dropped: nothing. Open: what the paper does where the last box never closes.
 */
export const boxedAnswer = method({
  name: 'boxed_answer',
  kind: 'score',
  source: 'M500: MAS-TTS, data description; secondary',
  version: 1,
  summary: 'The inside of the last \\boxed{…}, null when there is none or it never closes.',
  input: Type.Object({ text: Type.String() }),
  run: ({ text }): string | null => lastBox(text),
  judged: {
    reads: ['content'],
    rows: ({ episodes, steps, contentOf }, ask) => {
      const messages = messagesOf({ steps });
      return episodes.map((episode) => {
        const key = `e/${episode.episode_id}`;
        const last = messages.get(episode.episode_id)?.at(-1);
        if (last === undefined) return score(key, null, 'no_messages');
        const { text } = contentOf(last);
        if (text === null) return score(key, null, 'no_text');
        const found = ask.run({ text });
        return found === null
          ? score(key, null, 'no_boxed_answer', { step_id: last.step_id })
          : textScore(episode, found, { step_id: last.step_id });
      });
    },
  },
});

/**
 * Whether each answer is the reference answer.
 *
 * Source: the acceptance test of MAS-TTS (0/1 evaluator score), verified (code); the comparison is ours.
 * Kept: equal as normalised text (case matters), or as plain numbers within 1e-9, or, only with `choices`, the same letter.
 * A null answer is wrong; a null reference is refused, because the verdict is unknown. Dropped: the list of evaluator scores (all ≥ 8),
 * which is a decision about scores and not about an answer, and symbolic equivalence.
 * Open: the normaliser of the paper.
 */
export const correctnessFilter = method({
  name: 'correctness_filter',
  kind: 'filter',
  source: 'M500: jincan333/MAS-TTS, acceptance test verified (code); comparison ours',
  version: 1,
  summary: 'For each answer whether it equals the reference as text, as a number, or as a choice.',
  input: Type.Object({
    pairs: Type.Array(
      Type.Object({
        answer: nullable(Type.String()),
        reference: Type.String(),
        choices: Type.Optional(Type.Boolean()),
      }),
    ),
  }),
  run: ({ pairs }): boolean[] =>
    pairs.map(
      ({ answer, reference, choices }) =>
        answer !== null && sameAnswer(normalised(answer), normalised(reference), choices === true),
    ),
  judged: {
    reads: ['content'],
    rows: (facts, ask) => {
      const answerOf = answersOf(facts);
      return facts.episodes.map((episode) => {
        const reference = textOfTruth(episode.ground_truth);
        if (reference === null) return verdictOn(episode, null, 'no_reference');
        const answer = answerOf(episode);
        const pair = { answer: answer?.text ?? null, reference, ...(isChoice(episode) ? { choices: true } : {}) };
        const [right] = ask.run({ pairs: [pair] });
        const reason = right ? null : answer === null ? 'no_answer' : 'wrong';
        return verdictOn(episode, right ?? null, reason, answer === null ? undefined : { answer_from: answer.from });
      });
    },
  },
});

const params = { min_tokens: 1024, require_interdisciplinary: true };

/**
 * The traces of the M500 set: long enough, in consensus, well formed and correct.
 *
 * Source: MAS-TTS, description of M500. Verified (text) for the conditions; the pipeline is not released.
 * Kept: `answer_tokens` must be strictly above the limit, and is measured on the reference answer, not on the team's trace; input order.
 * Dropped: the pipeline that makes the marks. Open: how diverse the set is: see `diversity_select`.
 */
export const m500Filter = method({
  name: 'm500_filter',
  kind: 'filter',
  source: 'M500: MAS-TTS, conditions verified (text)',
  version: 1,
  summary: 'Keeps traces that are long, interdisciplinary where required, agreed on, well formed and correct.',
  teams: 'solver and critics',
  params,
  limits: { min_tokens: Type.Integer({ minimum: 0 }) },
  input: Type.Object({
    traces: Type.Array(
      Type.Object({
        id: Key,
        interdisciplinary: Type.Optional(Type.Boolean()),
        answer_tokens: Type.Integer({ minimum: 0 }),
        consensus: Type.Boolean(),
        format: Type.Boolean(),
        correct: Type.Boolean(),
      }),
    ),
  }),
  run: ({ traces }, { min_tokens, require_interdisciplinary }): (string | number)[] =>
    traces
      .filter(
        (trace) =>
          (trace.interdisciplinary === true || !require_interdisciplinary) &&
          trace.answer_tokens > min_tokens &&
          trace.consensus &&
          trace.format &&
          trace.correct,
      )
      .map(({ id }) => id),
  judged: {
    /**
     * Verdicts of the three filters earlier in the same judging. The task's tags hold `interdisciplinary` (true or false) and
     * `answer_tokens`, the length of the reference answer; a reference with a `usage` gives it as `output_tokens`.
     */
    rows: ({ episodes, verdictOf }, ask) =>
      episodes.map((episode) => {
        const { episode_id, task_tags } = episode;
        const earlier = {
          consensus: verdictOf('consensus_filter', episode_id),
          format: verdictOf('format_filter', episode_id),
          correct: verdictOf('correctness_filter', episode_id),
        };
        for (const [name, keep] of Object.entries(earlier)) {
          if (keep === undefined) return verdictOn(episode, null, `no_${name}_verdict`);
          if (keep === null) return verdictOn(episode, null, `unknown_${name}`);
        }
        const answer_tokens = task_tags?.answer_tokens ?? usedTokens(episode.reference);
        if (!isInteger(answer_tokens)) return verdictOn(episode, null, 'no_answer_tokens');
        const interdisciplinary = task_tags?.interdisciplinary;
        if (typeof interdisciplinary !== 'boolean' && ask.params.require_interdisciplinary !== false)
          return verdictOn(episode, null, 'no_interdisciplinary_tag');
        const trace = {
          id: episode_id,
          answer_tokens,
          ...(typeof interdisciplinary === 'boolean' ? { interdisciplinary } : {}),
          consensus: earlier.consensus === true,
          format: earlier.format === true,
          correct: earlier.correct === true,
        };
        const kept = ask.run({ traces: [trace] }).length === 1;
        return verdictOn(episode, kept, kept ? null : 'dropped', trace);
      }),
  },
});

function usedTokens(reference: unknown): unknown {
  const { usage } = (reference ?? {}) as { usage?: { output_tokens?: unknown } | null };
  return usage?.output_tokens;
}

const isInteger = (value: unknown): value is number => Number.isSafeInteger(value);

/**
 * Picks traces so that no category takes more than its turn.
 *
 * Source: the M500 text names diversity as a criterion and publishes no algorithm; this one is ours. Unverified.
 * Each category is sorted by score, best first (stable), then the categories are visited in ascending name order, one item a visit.
 * Kept: the criterion. Dropped: nothing. Open: the algorithm.
 */
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
