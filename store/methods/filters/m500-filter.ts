/**
 * The traces of the M500 set: long enough, in consensus, well formed and correct.
 *
 * Source: MAS-TTS, description of M500. Verified (text) for the conditions; the pipeline is not released.
 * Kept: `answer_tokens` must be strictly above the limit, and is measured on the reference answer, not on the team's trace; input order.
 * Dropped: the pipeline that makes the marks. Open: how diverse the set is: see `diversity_select`.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';
import { Key } from '../shapes.ts';

const Input = Type.Object({
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
});
const params = { min_tokens: 1024, require_interdisciplinary: true };

export const m500Filter: Method<Static<typeof Input>, typeof params, (string | number)[]> = {
  name: 'm500_filter',
  kind: 'filter',
  source: 'M500: MAS-TTS, conditions verified (text)',
  version: 1,
  needs: 'earlier verdicts',
  summary: 'Keeps traces that are long, interdisciplinary where required, agreed on, well formed and correct.',
  params,
  limits: { min_tokens: Type.Integer({ minimum: 0 }) },
  input: Input,
  run: ({ traces }, { min_tokens, require_interdisciplinary }) =>
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
};
