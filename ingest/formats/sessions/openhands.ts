/**
 * Runs of OpenHands. Its events until 2025, {id, source, action, args} and {source, observation, content, extras}, are read from
 * OpenHands/OpenHands at d6fab190, openhands/events/serialization/: a saved trajectory (one list), a file for each event, or the
 * `history` of a line of an evaluation (evaluation/utils/shared.py). Those of its SDK, {kind, id, source}, are read from openhands-sdk
 * 1.58.0 (PyPI), openhands/sdk/event/: a folder `events` beside `base_state.json`, or the `history` of such a line.
 */
import { asText, canonicalJson, given, hashId, isRecord, type JsonObject, without } from '../../events/json.ts';
import { writtenJson } from '../../events/spelling.ts';
import { isIdentifier } from '../../events/text.ts';
import { type Conversion, listsOf, type NativeRecord, type NativeRefusal } from '../kit/format.ts';
import { lineFormat } from '../kit/lines.ts';
import { recordId, refusal, refused } from '../kit/native.ts';
import { taskOf } from '../kit/run.ts';
import { Trace } from '../kit/trace.ts';
import { addItems, type Item } from './openhands-drafts.ts';
import { earlyItems, isEarlyEvent } from './openhands-early.ts';
import { isSdkEvent, isSdkState, sdkItems } from './openhands-sdk.ts';

const NAME = 'openhands';

const isEvent = (record: unknown): record is JsonObject => isEarlyEvent(record) || isSdkEvent(record);

/** A line of an evaluation; long ago its history was pairs of an action and an observation. */
const isOutput = (record: unknown): record is JsonObject & { readonly history: readonly unknown[] } =>
  isRecord(record) && 'instance_id' in record && Array.isArray(record.history) && record.history.flat().some(isEvent);

export const openhands = lineFormat({
  name: NAME,
  summary: 'OpenHands trajectories, events, conversations of its SDK, and lines of its evaluations',
  isLine: (one) => isEvent(one) || isSdkState(one) || isOutput(one),
  gathers: ({ records, shape }) => (records.some(isOutput) ? null : shape === 'document' ? 'folder:events' : 'file'),
  joins: {
    names: (lines) => (isBeginning(eventsIn(lines)) ? namesIn(lines) : []),
    episodes: namesIn,
    marks: openhandsMarks,
    timeOf: ({ timestamp }) => (typeof timestamp === 'string' ? timestamp : null),
    linesOf: (stored) => (Array.isArray(stored) ? stored.flat() : [stored]),
  },
  convert,
});

type OpenhandsRun = {
  readonly events: readonly { readonly event: JsonObject; readonly at: number }[];
  readonly state: JsonObject | null;
  readonly output: JsonObject | null;
};

function convert(_: readonly unknown[], record: NativeRecord): Conversion {
  const refusals: NativeRefusal[] = [];
  const run = runOf(record.value, refusals);
  const events = run.events.map(({ event }) => event);
  if (events.length === 0)
    return refused(...refusals, refusal('bad_shape', 'events', 'at least one event of OpenHands', record.value));
  if (!run.output && run.state === null && !beginsRun(events))
    return refused(...refusals, refusal('bad_shape', '', HEADLESS, events[0]));
  // A folder may hold events of both kinds. They are two runs that nothing else distinguishes.
  const [early, sdk] = [events.filter(isEarlyEvent), events.filter((event) => !isEarlyEvent(event))];
  const items = [...(early.length > 0 ? earlyItems(early) : []), ...(sdk.length > 0 ? sdkItems(sdk, run.state) : [])];
  const [episodeId, named] = idOf(run, events, record);
  const { output } = run;
  const prompt = items.find((item) => item.kind === 'message' && item.role === 'user');
  const query = typeof output?.instruction === 'string' ? output.instruction : textOf(prompt);
  const metadata = isRecord(output?.metadata) ? output.metadata : {};
  const agent = isIdentifier(metadata.agent_class) ? metadata.agent_class : undefined;
  const trace = Trace.revised(NAME, { ...record, canonical: writtenJson(record.value) }, episodeId);
  const agents = addItems(trace, items, agent);
  if (output) addScores(trace, output.test_result);
  const end = items.findLast((item) => item.kind === 'end');
  const { answer, stop } = end?.kind === 'end' ? end : {};
  return {
    ...trace.finish(
      {
        task: taskOf(
          NAME,
          query,
          given('tags', isRecord(output?.instance) ? { instance: output.instance } : undefined),
          output?.instance_id,
        ),
        started: {
          tags: output ? without({ metadata: output.metadata ?? undefined }) : undefined,
        },
        agents,
        finished: {
          outcome: output?.error != null || stop === 'error' ? 'error' : 'unknown',
          answer,
          stop_reason: stop,
          totals: isRecord(output?.metrics) ? { metrics: output.metrics } : undefined,
          unmapped: output?.error == null ? undefined : { error: output.error },
        },
      },
      refusals,
    ),
    repeated: named && record.ordinal > 0,
  };
}

/** The events of a record in their order, whatever it is made of. */
function runOf(value: unknown, refusals: NativeRefusal[]): OpenhandsRun {
  const output = isOutput(value) ? value : null;
  const list = output ? output.history.flat() : Array.isArray(value) ? listsOf(value).flat().flat() : [value];
  const states = list.filter(isSdkState);
  const events = list.flatMap((event, at) => {
    if (isEvent(event)) return [{ event, at }];
    const field = output ? `history[${at}]` : '';
    if (!isSdkState(event))
      refusals.push({
        ...refusal('bad_shape', field, 'an event with a source and a kind, action or observation', event),
        at: output ? 0 : at,
      });
    return [];
  });
  const early = events.every(({ event }) => isEarlyEvent(event) && Number.isSafeInteger(event.id));
  const sorted = early ? events.toSorted((a, b) => (a.event.id as number) - (b.event.id as number)) : events;
  // Of a conversation that was saved again the state counts that names the last event.
  const placeOf = (state: JsonObject): number => events.findIndex(({ event }) => event.id === state.leaf_event_id);
  const [state = null] = states.toSorted((a, b) => placeOf(b) - placeOf(a));
  return { events: sorted, state, output };
}

const HEADLESS =
  'the event with which a run begins (its system prompt, or the first message of a user); of a run that was cut, import all parts in one command';

/** Events as `runOf` gives them, of lines that were not checked. */
const eventsIn = (lines: readonly unknown[]): readonly JsonObject[] =>
  runOf([...lines], []).events.map(({ event }) => event);

/** An action of the environment that is no part of a run. */
const STATE = 'change_agent_state';

/** Whether these events are not the later part of a run alone. A conversation of the SDK begins with its system prompt. */
function beginsRun(events: readonly JsonObject[]): boolean {
  if (events.every(isSdkEvent)) return events.some(({ kind }) => kind === 'SystemPromptEvent');
  // Before the first word the environment may report that it starts.
  const first = events.find(({ source, action }) => source !== 'environment' || (action ?? STATE) !== STATE);
  return first !== undefined && (first.source === 'user' || first.action === 'system');
}

/** Whether they are certainly the beginning: what a user says may come in the middle too, where the numbers of events have grown. */
const isBeginning = (events: readonly JsonObject[]): boolean =>
  beginsRun(events) &&
  (events.every(isSdkEvent) || events.some(({ id, action }) => action === 'system' || !(Number(id) > 2)));

/** The ids that a run may have: of its state, of its first event, of the user's first message. */
function namesIn(lines: readonly unknown[]): string[] {
  const { state } = runOf([...lines], []);
  const events = eventsIn(lines);
  const asked = events.find(({ source, action }) => source === 'user' && action === 'message');
  const names = [state?.id, events.find(isSdkEvent)?.id, asked && hashId(NAME, canonicalJson(asked))];
  return names.filter(isIdentifier);
}

function openhandsMarks(line: JsonObject) {
  const called = isRecord(line.tool_call_metadata) ? line.tool_call_metadata.tool_call_id : line.tool_call_id;
  const answers = 'observation' in line || 'action_id' in line;
  const id = isSdkEvent(line) ? line.id : undefined;
  return answers ? ([[id], [called, line.action_id]] as const) : ([[id, called], []] as const);
}

/** The id of the run, and whether it depends on what a run begins with alone, so that it stays when the run grows. */
function idOf({ state, output }: OpenhandsRun, events: readonly JsonObject[], record: NativeRecord): [string, boolean] {
  if (output) return [recordId(NAME, record), false];
  if (isIdentifier(state?.id)) return [state.id, true];
  const [first] = events as [JsonObject];
  if (isSdkEvent(first) && isIdentifier(first.id)) return [first.id, true];
  const asked = events.find(({ source, action }) => source === 'user' && action === 'message');
  return asked ? [hashId(NAME, canonicalJson(asked)), true] : [recordId(NAME, record), false];
}

const textOf = (item: Item | undefined): string | null => {
  if (item?.kind !== 'message') return null;
  const { content } = item;
  if (typeof content === 'string') return content;
  return content.flatMap((part) => (part.type === 'text' ? [asText(part.content)] : [])).join('\n');
};

/** Numbers and booleans that a judgement of the evaluation holds, also one level deeper in its report. */
function addScores(trace: Trace, result: unknown): void {
  if (!isRecord(result)) return;
  const found = new Map<string, number | boolean>();
  for (const from of [result, ...Object.values(result).filter(isRecord)])
    for (const [name, value] of Object.entries(from))
      if (isIdentifier(name) && (typeof value === 'number' || typeof value === 'boolean') && !found.has(name))
        found.set(name, value);
  for (const [name, value] of found) trace.feedback([name], { kind: 'score', name, value, by: 'env' });
}
