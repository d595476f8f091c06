/**
 * ReDel sessions: a folder with the log of events and the state at its end, which holds the number of events. Agents (kani)
 * form a tree; one that is spawned again under its id replaces itself. What tokens were used follows its message by order alone.
 */
import { canonicalJson, hashId, isRecord } from '../json.ts';
import { type Converted, type Format, listsOf, type NativeRecord, type NativeRefusal } from './format.ts';
import { given, isIdentifier, refusal, revisedEmitter, without } from './native.ts';
import { sessionDrafts } from './redel-events.ts';
import { badEvent, isRedelEvent, isRedelState, type RedelEvent } from './redel-rules.ts';
import { NO_TOKEN_IDS, runDrafts, taskOf, timeOfSeconds } from './run.ts';

const NAME = 'redel';
const emit = revisedEmitter(NAME);

export const redel: Format = {
  name: NAME,
  summary: 'ReDel sessions, a folder each: lines of {type: "kani_…", timestamp, …} and {id, title, n_events, state}',
  recognises: ({ records }) => records.some((record) => isRedelEvent(record) || isRedelState(record)),
  gathers: () => 'folder',
  convert,
  restates: new Set(['task.defined']),
  mapping: [
    ['round_complete.session_id, else id of the state', 'episode_id (without them the hash of the first event)'],
    ['send_message', 'task.defined by the hash of the first; message.sent from user'],
    ['kani_spawn', 'agent.defined with its parent and depth'],
    ['kani_state_change', 'agent.changed'],
    ['kani_message[assistant]', 'generation.completed, tool.called'],
    ['kani_message[function, tool]', 'tool.returned'],
    ['kani_message[user, system]', 'message.sent'],
    ['tokens_used', 'usage of the message before it'],
    ['root_message', 'episode.finished.answer: it repeats a message'],
    ['error', 'environment.observed of kind error'],
    ['n_events', 'a log of another length is flagged incomplete'],
  ],
};

type State = Readonly<Record<string, unknown>>;
type Placed = { readonly state: State; readonly at: number };
type Log = {
  readonly events: readonly { readonly event: RedelEvent; readonly seq: number }[];
  readonly size: number;
  readonly bad: boolean;
};

function convert(record: NativeRecord): Converted {
  const lists = listsOf(record.value);
  const refusals: NativeRefusal[] = [];
  const logs: Log[] = [];
  const states: Placed[] = [];
  let at = 0;
  for (const list of lists) {
    const events: { event: RedelEvent; seq: number }[] = [];
    let size = 0;
    for (const value of list) {
      const place = at++;
      if (isRedelState(value)) states.push({ state: value as State, at: place });
      else {
        const seq = size++;
        const bad = badEvent(value);
        if (bad) refusals.push({ ...bad, at: place });
        else events.push({ event: value as RedelEvent, seq });
      }
    }
    if (size > 0) logs.push({ events, size, bad: events.length < size });
  }
  const bodies: string[] = [];
  const used = new Set<State>();
  const drafts = logs.flatMap((log) => {
    if (log.events.length === 0) return [];
    const state = stateOf(log, states, logs.length);
    if (state) used.add(state);
    const body = canonicalJson({ events: log.events.map(({ event }) => event), state });
    bodies.push(body);
    return sessionOf(log, state, body);
  });
  for (const { state, at } of states.filter((one) => !used.has(one.state))) {
    refusals.push({ ...refusal('bad_reference', 'id', 'the log of events of this session beside it', state.id), at });
  }
  if (at === 0) refusals.push(refusal('bad_shape', '', 'at least one event', []));
  return { drafts, refusals, raw: null, bodies, repeated: record.ordinal > 0 };
}

const sessionIdOf = ({ events }: Log): unknown =>
  events.map(({ event }) => (event.type === 'round_complete' ? event.session_id : undefined)).find(isIdentifier);

/** The state of a log: of the same session, or the only one beside the only log. */
function stateOf(log: Log, states: readonly Placed[], logs: number): State | null {
  const id = sessionIdOf(log);
  const own = states.find(({ state }) => state.id === id)?.state;
  return own ?? (logs === 1 && states.length === 1 && id === undefined ? states[0]!.state : null);
}

function sessionOf(log: Log, state: State | null, canonical: string) {
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
    canonical,
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
