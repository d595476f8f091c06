/** What most formats hold of a run around its events: its task, its record, its beginning, its members, its end. */
import type { Draft, EventData } from '../../events/events.ts';
import { sha256 } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { type Emitter, type Optionals, rawRecord, taskIdOfText } from './native.ts';

/** Flag of an episode whose source holds text alone: what the model sampled can only be guessed by tokenising again. */
export const NO_TOKEN_IDS = 'no_token_ids';

export type Run = {
  readonly format: string;
  readonly episodeId: string;
  /** The record as JSON, in the form in which it is kept. */
  readonly canonical: string;
  readonly task: Optionals<EventData<'task.defined'>> | null;
  readonly team?: Optionals<EventData<'team.defined'>> | null;
  readonly started?: Omit<Optionals<EventData<'episode.started'>>, 'episode_id'>;
  readonly startedAt?: string | null;
  /** Names, or what else is known of each. */
  readonly agents?: Iterable<string | Omit<Optionals<EventData<'agent.defined'>>, 'episode_id'>>;
  readonly events: readonly Draft[];
  /** Null where the record has no end. */
  readonly finished: Omit<Optionals<EventData<'episode.finished'>>, 'episode_id'> | null;
  readonly finishedAt?: string | null;
};

/** All events of a run of text. Its `started` may bring flags of its own in the place of `no_token_ids`. */
export function runDrafts(emit: Emitter, run: Run): Draft[] {
  const { episodeId, task, team } = run;
  const raw = rawRecord(emit, episodeId, run.canonical);
  const members = [...(run.agents ?? [])].map((one) => (typeof one === 'string' ? { agent_id: one } : one));
  return [
    ...(task ? [emit.state('task.defined', task)] : []),
    ...(team ? [emit.state('team.defined', team)] : []),
    raw.draft,
    emit.event(
      'episode.started',
      [episodeId],
      {
        episode_id: episodeId,
        task_id: task?.task_id,
        team_id: team?.team_id,
        native: { format: run.format },
        raw: { artifact_id: raw.artifactId },
        flags: [NO_TOKEN_IDS],
        ...run.started,
      },
      run.startedAt ?? null,
    ),
    ...members.map((member) =>
      emit.event('agent.defined', [episodeId, member.agent_id], {
        episode_id: episodeId,
        name: member.agent_id,
        ...member,
      }),
    ),
    ...run.events,
    ...(run.finished
      ? [
          emit.event(
            'episode.finished',
            [episodeId],
            { episode_id: episodeId, ...run.finished },
            run.finishedAt ?? null,
          ),
        ]
      : []),
  ];
}

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
