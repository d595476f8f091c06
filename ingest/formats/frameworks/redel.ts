/**
 * ReDel sessions: a folder with the log of events and the state at its end, which holds the number of events. Agents (kani)
 * form a tree; one that is spawned again under its id replaces itself. What tokens were used follows its message by order alone.
 */

import { canonicalJson, hashId, isRecord, type JsonObject, without } from '../../events/json.ts';
import { writtenJson } from '../../events/spelling.ts';
import { isIdentifier } from '../../events/text.ts';
import { type Conversion, type Format, listed, listsOf, type NativeRecord, type NativeRefusal } from '../kit/format.ts';
import { joinParts, type Part } from '../kit/join-parts.ts';
import { joinsOf } from '../kit/lines.ts';
import { badIdentifier, refusal } from '../kit/native.ts';
import { taskOf, timeOfSeconds } from '../kit/run.ts';
import { Trace } from '../kit/trace.ts';
import { addEvents, type SessionEvent } from './redel-events.ts';

const NAME = 'redel';

const TYPES: ReadonlySet<unknown> = new Set([
  'kani_spawn',
  'kani_state_change',
  'kani_message',
  'tokens_used',
  'root_message',
  'round_complete',
  'send_message',
  'session_meta_update',
  'error',
]);

const isRedelEvent = (value: unknown): boolean =>
  isRecord(value) && TYPES.has(value.type) && typeof value.timestamp === 'number';

const isRedelState = (value: unknown): value is JsonObject =>
  isRecord(value) && Array.isArray(value.state) && 'n_events' in value && 'last_modified' in value;

const ROLES: ReadonlySet<unknown> = new Set(['system', 'user', 'assistant', 'function', 'tool']);

/** Why an event cannot be read; null where it can. A message that is there is an object. */
function badEvent(value: unknown): NativeRefusal | null {
  if (!isRecord(value)) return refusal('bad_type', '', 'an event object', value);
  const { type, msg } = value;
  if (typeof type !== 'string') return refusal('bad_type', 'type', 'the type of the event', type);
  const isMessage = type === 'kani_message' || type === 'root_message';
  if (type.startsWith('kani_') || type === 'tokens_used') {
    const bad = badIdentifier(value.id, 'id');
    if (bad) return bad;
  }
  if (type === 'error') return null;
  if (!isMessage && !('msg' in value)) return null;
  if (!isRecord(msg)) return refusal('bad_type', 'msg', 'a message object', msg);
  return ROLES.has(msg.role) ? null : refusal('bad_type', 'msg.role', `one of ${[...ROLES].join(', ')}`, msg.role);
}

export const redel: Format = {
  name: NAME,
  summary: 'ReDel sessions, a folder each: lines of {type: "kani_…", timestamp, …} and {id, title, n_events, state}',
  recognises: ({ records }) => records.some((record) => isRedelEvent(record) || isRedelState(record)),
  gathers: () => 'folder',
  rereads: (stored) =>
    isRecord(stored) ? [...listed(stored.events), ...(stored.state == null ? [] : [stored.state])] : [],
  convert,
};

type PlacedState = { readonly state: JsonObject; readonly at: number };
type Log = { readonly events: readonly SessionEvent[]; readonly size: number };

function convert(record: NativeRecord): Conversion {
  const lists = listsOf(record.value);
  const refusals: NativeRefusal[] = [];
  const logs: Log[] = [];
  const states: PlacedState[] = [];
  let at = 0;
  const parts = lists.map((list): Part<number> => {
    const placed = list.map((value) => ({ value, at: at++ }));
    const logLines = placed.filter(({ value }) => !isRedelState(value));
    for (const { value, at } of placed) if (isRedelState(value)) states.push({ state: value, at });
    return { lines: logLines.map(({ value }) => value), members: logLines.map((one) => one.at) };
  });
  const { runs, strays } = joinParts(
    parts.filter(({ lines }) => lines.length > 0),
    LOGS,
  );
  const begins = ({ lines: [first] }: Part<number>): boolean => isRecord(first) && first.type === 'send_message';
  for (const { members } of strays.filter((part) => !begins(part)))
    refusals.push({ ...refusal('bad_shape', '', HEADLESS, 'a later part'), at: members[0]! });
  for (const { lines, members } of [...runs, ...strays.filter(begins)]) {
    const events = lines.flatMap((value, seq) => {
      const bad = badEvent(value);
      if (bad) refusals.push({ ...bad, at: members[seq]! });
      return bad ? [] : [{ event: value as SessionEvent['event'], seq }];
    });
    logs.push({ events, size: lines.length });
  }
  const bodies: string[] = [];
  const used = new Set<JsonObject>();
  const drafts = logs.flatMap((log) => {
    if (log.events.length === 0) return [];
    const state = stateOf(log, states, logs.length);
    if (state) used.add(state);
    const body = writtenJson({ events: log.events.map(({ event }) => event), state });
    bodies.push(body);
    return sessionOf(record, log, state, body).drafts;
  });
  for (const { state, at } of refusals.length > 0 && logs.length === 0
    ? []
    : states.filter(({ state }) => !used.has(state) && ![...used].some((one) => one.id === state.id))) {
    refusals.push({ ...refusal('bad_reference', 'id', 'the log of events of this session beside it', state.id), at });
  }
  if (at === 0) refusals.push(refusal('bad_shape', '', 'at least one event', []));
  return { drafts, refusals, raw: null, bodies, repeated: record.ordinal > 0 };
}

const HEADLESS =
  'kani_spawn of the first agent, with which a session begins; of a log that was cut, put all parts in one folder and import that';

/** The id of a session stands at its end, if at all, so its logs are recognised by their first agent and the agents in them. */
const LOGS = joinsOf({
  names: (lines) =>
    lines
      .flatMap((line) => (isRecord(line) && line.type === 'kani_spawn' && line.depth === 0 ? [line.id] : []))
      .filter(isIdentifier)
      .slice(0, 1),
  marks: ({ type, id, parent }) => [type === 'kani_spawn' ? [id] : [], [id, parent]],
  timeOf: ({ timestamp }) => timeOfSeconds(timestamp),
});

const sessionIdOf = ({ events }: Log): unknown =>
  events.map(({ event }) => (event.type === 'round_complete' ? event.session_id : undefined)).find(isIdentifier);

const byAge = (a: PlacedState, b: PlacedState): number => Number(a.state.last_modified) - Number(b.state.last_modified);

/** The state of a log: of the same session, or the only one beside the only log. */
function stateOf(log: Log, states: readonly PlacedState[], logs: number): JsonObject | null {
  const id = sessionIdOf(log);
  // Of a session that was saved again the last state counts.
  const latest = (of: readonly PlacedState[]): JsonObject | undefined => of.toSorted(byAge).at(-1)?.state;
  const own = latest(states.filter(({ state }) => state.id === id));
  const alone = logs === 1 && id === undefined && new Set(states.map(({ state }) => state.id)).size === 1;
  return own ?? (alone ? latest(states)! : null);
}

function sessionOf(record: NativeRecord, log: Log, state: JsonObject | null, canonical: string): Conversion {
  const { events, size } = log;
  const first = events[0]!.event;
  const named = sessionIdOf(log) ?? state?.id;
  const asked = events.find(({ event }) => event.type === 'send_message' && typeof event.content === 'string');
  const expected = state?.n_events;
  const short = typeof expected === 'number' && expected !== size;
  const last = events.findLast(({ event }) => event.type === 'root_message')?.event.msg;
  const complete = events.some(({ event }) => event.type === 'round_complete');
  const trace = Trace.revised(NAME, record, isIdentifier(named) ? named : hashId(NAME, canonicalJson(first)));
  addEvents(trace, events);
  return trace.finish({
    canonical,
    task: taskOf(NAME, asked?.event.content ?? firstUserText(log)),
    incomplete: short || events.length < size,
    started: {
      unmapped: state ? without({ state: without(state, 'id', 'state') }) : undefined,
    },
    startedAt: timeOfSeconds(first.timestamp),
    finished: {
      outcome: 'unknown',
      seq: size,
      answer: isRecord(last) && typeof last.content === 'string' ? last.content : undefined,
      stop_reason: complete ? 'round_complete' : 'log_ended',
    },
    finishedAt: timeOfSeconds(events.at(-1)!.event.timestamp),
  });
}

const firstUserText = ({ events }: Log): unknown =>
  events
    .map(({ event }) => (isRecord(event.msg) && event.msg.role === 'user' ? event.msg.content : undefined))
    .find((text) => typeof text === 'string');
