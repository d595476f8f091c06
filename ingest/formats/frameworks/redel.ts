/**
 * ReDel sessions: a folder with the log of events and the state at its end, which holds the number of events. Agents (kani)
 * form a tree; one that is spawned again under its id replaces itself. What tokens were used follows its message by order alone.
 */

import { canonicalJson, given, hashId, isRecord, without } from '../../events/json.ts';
import { writtenJson } from '../../events/spelling.ts';
import { isIdentifier } from '../../events/text.ts';
import {
  type Conversion,
  type Format,
  type JoinRules,
  listed,
  listsOf,
  type NativeRecord,
  type NativeRefusal,
} from '../kit/format.ts';
import { joinParts, type Part } from '../kit/join-parts.ts';
import { marksOf } from '../kit/marks.ts';
import { refusal, revisedEmitter } from '../kit/native.ts';
import { NO_TOKEN_IDS, runDrafts, taskOf, timeOfSeconds } from '../kit/run.ts';
import { sessionDrafts } from './redel-events.ts';
import { badEvent, isRedelEvent, isRedelState, type RedelEvent } from './redel-rules.ts';

const NAME = 'redel';
const emit = revisedEmitter(NAME);

export const redel: Format = {
  name: NAME,
  summary: 'ReDel sessions, a folder each: lines of {type: "kani_…", timestamp, …} and {id, title, n_events, state}',
  recognises: ({ records }) => records.some((record) => isRedelEvent(record) || isRedelState(record)),
  gathers: () => 'folder',
  rereads: (stored) =>
    isRecord(stored) ? [...listed(stored.events), ...(stored.state == null ? [] : [stored.state])] : [],
  convert,
  restates: new Set(['task.defined']),
};

type State = Readonly<Record<string, unknown>>;
type PlacedState = { readonly state: State; readonly at: number };
type Log = {
  readonly events: readonly { readonly event: RedelEvent; readonly seq: number }[];
  readonly size: number;
  readonly bad: boolean;
};

function convert(record: NativeRecord): Conversion {
  const lists = listsOf(record.value);
  const refusals: NativeRefusal[] = [];
  const logs: Log[] = [];
  const states: PlacedState[] = [];
  let at = 0;
  const parts = lists.map((list): Part<number> => {
    const placed = list.map((value) => ({ value, at: at++ }));
    const logLines = placed.filter(({ value }) => !isRedelState(value));
    states.push(
      ...placed.filter(({ value }) => isRedelState(value)).map((one) => ({ ...one, state: one.value as State })),
    );
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
      return bad ? [] : [{ event: value as RedelEvent, seq }];
    });
    logs.push({ events, size: lines.length, bad: events.length < lines.length });
  }
  const bodies: string[] = [];
  const used = new Set<State>();
  const drafts = logs.flatMap((log) => {
    if (log.events.length === 0) return [];
    const state = stateOf(log, states, logs.length);
    if (state) used.add(state);
    const body = writtenJson({ events: log.events.map(({ event }) => event), state });
    bodies.push(body);
    return sessionOf(log, state, body);
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
const LOGS: JoinRules = {
  names: (lines) =>
    lines
      .flatMap((line) => (isRecord(line) && line.type === 'kani_spawn' && line.depth === 0 ? [line.id] : []))
      .filter(isIdentifier)
      .slice(0, 1),
  marks: (line) => {
    if (!isRecord(line)) return marksOf([], []);
    return marksOf(line.type === 'kani_spawn' ? [line.id] : [], [line.id, line.parent]);
  },
  timeOf: (line) => (isRecord(line) ? timeOfSeconds(line.timestamp) : null),
  needsName: true,
};

const sessionIdOf = ({ events }: Log): unknown =>
  events.map(({ event }) => (event.type === 'round_complete' ? event.session_id : undefined)).find(isIdentifier);

const byAge = (a: PlacedState, b: PlacedState): number => Number(a.state.last_modified) - Number(b.state.last_modified);

/** The state of a log: of the same session, or the only one beside the only log. */
function stateOf(log: Log, states: readonly PlacedState[], logs: number): State | null {
  const id = sessionIdOf(log);
  // Of a session that was saved again the last state counts.
  const latest = (of: readonly PlacedState[]): State | undefined => of.toSorted(byAge).at(-1)?.state;
  const own = latest(states.filter(({ state }) => state.id === id));
  const alone = logs === 1 && id === undefined && new Set(states.map(({ state }) => state.id)).size === 1;
  return own ?? (alone ? latest(states)! : null);
}

function sessionOf(log: Log, state: State | null, original: string) {
  const { events } = log;
  const first = events[0]!.event;
  const named = sessionIdOf(log) ?? state?.id;
  const episodeId = isIdentifier(named) ? named : hashId(NAME, canonicalJson(first));
  const asked = events.find(({ event }) => event.type === 'send_message' && typeof event.content === 'string');
  const query = asked?.event.content ?? firstUserText(log);
  const expected = state?.n_events;
  const short = typeof expected === 'number' && expected !== log.size;
  const last = events.findLast(({ event }) => event.type === 'root_message')?.event.msg;
  const answer = isRecord(last) && typeof last.content === 'string' ? last.content : undefined;
  const complete = events.some(({ event }) => event.type === 'round_complete');
  return runDrafts(emit, {
    format: NAME,
    episodeId,
    canonical: original,
    task: taskOf(NAME, query),
    started: {
      flags: [NO_TOKEN_IDS, ...(short || log.bad ? ['incomplete'] : [])],
      ...given('unmapped', without({ ...(state ? { state: without(state, 'id', 'state') } : {}) })),
    },
    startedAt: timeOfSeconds(first.timestamp),
    events: sessionDrafts(emit, episodeId, events),
    finished: {
      outcome: 'unknown',
      seq: log.size,
      ...given('answer', answer),
      stop_reason: complete ? 'round_complete' : 'log_ended',
    },
    finishedAt: timeOfSeconds(events.at(-1)!.event.timestamp),
  });
}

const firstUserText = ({ events }: Log): unknown =>
  events
    .map(({ event }) => (isRecord(event.msg) && event.msg.role === 'user' ? event.msg.content : undefined))
    .find((text) => typeof text === 'string');
