/** Times of tracing formats in one form, UTC with microseconds, so that as text they are in order. */
import { normaliseTime } from '../../events/decode.ts';
import { timeOfSeconds, timeOfText } from './run.ts';

/** RFC 3339 in any zone; null for anything else. */
export const utcOf = (value: unknown): string | null => normaliseTime(timeOfText(value)) ?? null;

/** RFC 3339, where no zone means UTC, or milliseconds since 1970: LangSmith writes both in one record. */
export const timeOfMixed = (value: unknown): string | null => {
  if (typeof value === 'number') return timeOfSeconds(value / 1000);
  return typeof value === 'string' ? (utcOf(value) ?? utcOf(`${value}Z`)) : null;
};
