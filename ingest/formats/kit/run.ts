/** What most formats hold of a run around its events: its task, its record, its beginning, its members, its end. */
import { normaliseTime } from '../../events/decode.ts';
import type { Draft, EventData } from '../../events/events.ts';
import { sha256 } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { type Emitter, type Optionals, taskIdOfText } from './native.ts';

/** Flag of an episode whose source holds text alone: what the model sampled can only be guessed by tokenising again. */
export const NO_TOKEN_IDS = 'no_token_ids';

/** A task by its own id, or else by its text; null where it has neither. Its source is the format. */
export function taskOf(
  format: string,
  text: unknown,
  more: Omit<Optionals<EventData<'task.defined'>>, 'task_id'> = {},
  id?: unknown,
): Optionals<EventData<'task.defined'>> | null {
  const query = typeof text === 'string' && text.trim() !== '' ? text : null;
  const taskId = isIdentifier(id) ? id : query === null ? null : taskIdOfText(query);
  if (taskId === null) return null;
  return { task_id: taskId, source: format, ...(query === null ? {} : { query }), ...more };
}

/** Seconds since 1970 as a time; null for anything that is not such a number. */
export function timeOfSeconds(seconds: unknown): string | null {
  if (typeof seconds !== 'number' || !(seconds >= 0) || seconds > 253402300799) return null;
  const micros = Math.round((seconds % 1) * 1e6);
  const whole = new Date((Math.floor(seconds) + (micros === 1e6 ? 1 : 0)) * 1000).toISOString();
  return `${whole.slice(0, 19)}.${String(micros % 1e6).padStart(6, '0')}Z`;
}

/**
 * A native time in the form of an event: RFC 3339 in any zone. A time without a zone could be any of 26 hours and stays unknown, like
 * one that cannot be read; the record keeps it as it is written.
 */
export function timeOfText(text: unknown): string | null {
  if (typeof text !== 'string') return null;
  const zoned = /^\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:[Zz]|[+-]\d{2}:\d{2})$/.test(text);
  return zoned && !Number.isNaN(Date.parse(text.replace(' ', 'T'))) ? text.replace(/(\.\d{9})\d+/, '$1') : null;
}

/** RFC 3339 in any zone as UTC with microseconds, so that as text times are in order; null for anything else. */
export const utcOf = (value: unknown): string | null => normaliseTime(timeOfText(value)) ?? null;

/** The same, where no zone means UTC, and milliseconds since 1970: LangSmith writes both in one record. */
export const timeOfMixed = (value: unknown): string | null => {
  return typeof value === 'string' ? (utcOf(value) ?? utcOf(`${value}Z`)) : timeOfMs(value);
};

/** Milliseconds since 1970 as a time; null for anything that is no number. */
export const timeOfMs = (milliseconds: unknown): string | null =>
  typeof milliseconds === 'number' ? timeOfSeconds(milliseconds / 1000) : null;

/** The patch that a run came to, as an artifact; its text goes into `bodies`. */
export function patchDraft(emit: Emitter, episodeId: string, patch: string): Draft {
  const hash = sha256(patch);
  return emit.event('artifact.attached', [episodeId, 'patch'], {
    artifact_id: hash,
    episode_id: episodeId,
    role: 'patch',
    media_type: 'text/x-diff',
    sha256: hash,
    size: Buffer.byteLength(patch),
  });
}
