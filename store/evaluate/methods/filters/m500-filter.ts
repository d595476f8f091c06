/**
 * The traces of the M500 set: long enough, in consensus, well formed and correct.
 *
 * Source: MAS-TTS, description of M500. Verified (text) for the conditions; the pipeline is not released.
 * Kept: `answer_tokens` must be strictly above the limit, and is measured on the reference answer, not on the team's trace; input order.
 * Dropped: the pipeline that makes the marks. Open: how diverse the set is: see `diversity_select`.
 */

import { Type } from 'typebox';
import { verdictOn } from '../../judging/judgement.ts';
import { method } from '../method.ts';
import { Key } from '../shapes.ts';

const params = { min_tokens: 1024, require_interdisciplinary: true };

export const m500Filter = method({
  name: 'm500_filter',
  kind: 'filter',
  source: 'M500: MAS-TTS, conditions verified (text)',
  version: 1,
  summary: 'Keeps traces that are long, interdisciplinary where required, agreed on, well formed and correct.',
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
