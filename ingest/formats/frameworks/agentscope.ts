/**
 * AgentScope: the messages of a run, one a line. The list of them is the record, named by its first message, so that a file that has
 * grown is the same run. In version 1 tool results come in a message of their own, in version 2 within the assistant's, which holds all
 * calls of a reply. A saved state of version 2 holds the messages of its session, one of version 1 (of a memory, an agent, or a session
 * with a member for each agent) the messages in the memories of its agents.
 */
import type { Content } from '../../events/events.ts';
import { asText, canonicalJson, given, hashId, isRecord, type JsonObject, ownOf, without } from '../../events/json.ts';
import { writtenJson } from '../../events/spelling.ts';
import { isIdentifier } from '../../events/text.ts';
import { readArguments } from '../kit/chat-message.ts';
import type { Conversion, NativeRecord, NativeRefusal } from '../kit/format.ts';
import { lineFormat } from '../kit/lines.ts';
import { refusal, refused } from '../kit/native.ts';
import { Reader } from '../kit/reader.ts';
import { taskOf, timeOfText } from '../kit/run.ts';
import { Trace } from '../kit/trace.ts';
import { usageOf } from '../kit/usage.ts';
import {
  type Block,
  badMessage,
  blocksOf,
  CALLS,
  outputOf,
  outputTokensOf,
  partOf,
  textOf,
} from './agentscope-blocks.ts';

const NAME = 'agentscope';

export const agentscope = lineFormat({
  name: NAME,
  summary: 'AgentScope messages, one a line: {id, name, role, content: text or blocks, timestamp | created_at}',
  isLine: (line) =>
    isState(line) ||
    memoryIn(line) !== null ||
    (isRecord(line) &&
      ['name', 'role', 'content', 'metadata'].every((name) => name in line) &&
      ('timestamp' in line || 'created_at' in line)),
  joins: {
    names: namesOf,
    marks: (message) => {
      const blocks = placed([message]).flatMap(({ native }) =>
        badMessage(native) === null ? blocksOf((native as JsonObject).content) : [],
      );
      const ids = (is: (type: string) => boolean) => blocks.filter(({ type }) => is(type)).map(({ id }) => id);
      return [ids((type) => CALLS.has(type)), ids((type) => type === 'tool_result')];
    },
    timeOf: (message) => whenOf(message) ?? null,
    needsName: false,
  },
  convert,
});

/** `at` is the number of the message in its run. */
type Turn = { readonly at: number; readonly message: JsonObject; readonly blocks: readonly Block[] };

function convert(list: readonly unknown[], record: NativeRecord): Conversion {
  if (list.length === 0) return refused(refusal('bad_shape', '', 'at least one message', list));
  const messages = placed(list);
  const runs = [...statesIn(list)].map(([session, states]) => runOf(record, contextOf(states), { session, states }));
  if (messages.length > 0) runs.push(runOf(record, messages));
  return {
    drafts: runs.flatMap(({ drafts }) => drafts),
    refusals: runs.flatMap(({ refusals }) => refusals),
    raw: null,
    bodies: runs.flatMap(({ bodies = [] }) => bodies),
  };
}

type PlacedRecord = { readonly native: unknown; readonly at: number };

/** One run: messages that stand in the file themselves, or those of a session in the states of its agent. */
function runOf(
  record: NativeRecord,
  messages: readonly PlacedRecord[],
  state?: { readonly session: string; readonly states: readonly JsonObject[] },
): Conversion {
  const refusals: NativeRefusal[] = [];
  const ordered = inOrder(messages);
  const turns = ordered.flatMap(({ native, at }, number): Turn[] => {
    const bad = badMessage(native);
    if (bad) refusals.push({ ...bad, ...(state ? {} : { at }) });
    return bad ? [] : [{ at: number, message: native as JsonObject, blocks: blocksOf((native as JsonObject).content) }];
  });
  const [first] = turns;
  if (!first && !state) return refused(...refusals);
  const original = writtenJson(state?.states ?? ordered.map(({ native }) => native));
  const asked = turns.find(({ message }) => message.role === 'user');
  const metadata = isRecord(asked?.message.metadata) ? asked.message.metadata : {};
  // A run begins with what somebody asks; what begins with an answer may be the later part of a file. A state with a summary has lost
  // the messages that it sums up.
  const isCut = state
    ? first === undefined || refusals.length > 0 || state.states.some(({ summary }) => isGiven(summary))
    : first!.message.role === 'assistant' || namesOf(ordered.map(({ native }) => native)).length === 0;
  const trace = Trace.revised(NAME, record, state?.session ?? hashId(NAME, canonicalJson(first!.message)));
  let seq = 0;
  for (const turn of turns) addTurn(trace, turn, () => seq++);
  const run = trace.finish(
    {
      canonical: original,
      task: taskOf(NAME, isCut ? undefined : textOf(asked?.blocks ?? []), {}, metadata.task_id),
      incomplete: isCut,
      started: { session_id: state?.session },
      startedAt: first ? timeOfText(timestampOf(first.message)) : null,
    },
    refusals,
  );
  return { ...run, bodies: [original] };
}

/** The state of an agent of version 2, as `AgentState.model_dump_json` writes it. */
const isState = (value: unknown): value is JsonObject & { readonly session_id: string; readonly context: unknown[] } =>
  isRecord(value) && isIdentifier(value.session_id) && Array.isArray(value.context) && 'reply_context' in value;

/** The messages of a saved state of version 1; null for what is none. In 1.0.21 each stands beside its marks, before that alone. */
function memoryIn(value: unknown): readonly unknown[] | null {
  if (!isRecord(value)) return null;
  if (Array.isArray(value.content) && !('role' in value)) {
    const messages = value.content.map((one: unknown) => (Array.isArray(one) ? one[0] : one));
    return messages.length > 0 && messages.every(isRemembered) ? messages : null;
  }
  if ('content' in value) return null;
  if ('memory' in value) return memoryIn(value.memory);
  const members = Object.values(value).flatMap((one) => (isRecord(one) && 'memory' in one ? [memoryIn(one)] : []));
  const remembered = members.flatMap((messages) => messages ?? []);
  return remembered.length > 0 ? remembered : null;
}

const isRemembered = (message: unknown): boolean =>
  isRecord(message) && ['id', 'name', 'role', 'content', 'timestamp'].every((name) => name in message);

/** The messages of a file that are of no state of version 2; what several memories hold is there once. */
function placed(list: readonly unknown[]): PlacedRecord[] {
  const seen = new Set<unknown>();
  return list.flatMap((native, at): PlacedRecord[] => {
    if (isState(native)) return [];
    const remembered = memoryIn(native)?.filter((message) => {
      const { id } = message as JsonObject;
      return !seen.has(id) && seen.add(id);
    });
    return remembered ? remembered.map((message) => ({ native: message, at })) : [{ native, at }];
  });
}

const isGiven = (summary: unknown): boolean =>
  Array.isArray(summary) || (typeof summary === 'string' && summary !== '');

function statesIn(list: readonly unknown[]): ReadonlyMap<string, readonly JsonObject[]> {
  const sessions = new Map<string, JsonObject[]>();
  for (const one of list) {
    if (!isState(one)) continue;
    const known = sessions.get(one.session_id);
    if (known) known.push(one);
    else sessions.set(one.session_id, [one]);
  }
  return sessions;
}

/** The messages of all states of a session. A message that a later state holds with more blocks has grown. */
function contextOf(states: readonly JsonObject[]): readonly PlacedRecord[] {
  const found = new Map<unknown, unknown>();
  const sizeOf = (message: unknown): number =>
    isRecord(message) && Array.isArray(message.content) ? message.content.length : 0;
  for (const message of states.flatMap(({ context }) => context as unknown[])) {
    const id = isRecord(message) && isIdentifier(message.id) ? message.id : canonicalJson(message);
    if (!found.has(id) || sizeOf(message) > sizeOf(found.get(id))) found.set(id, message);
  }
  return [...found.values()].map((native, at) => ({ native, at }));
}

/** The names of the sessions of these states, and of the run that these messages begin; none where the first answers what is not there. */
function namesOf(list: readonly unknown[]): string[] {
  const sessions = [...statesIn(list).keys()];
  const messages = placed(list);
  const first = inOrder(messages).find(({ native }) => badMessage(native) === null)?.native as JsonObject | undefined;
  if (!first || blocksOf(first.content).some(({ type }) => type === 'tool_result')) return sessions;
  return [...sessions, hashId(NAME, canonicalJson(first))];
}

const whenOf = (message: unknown): string | undefined => {
  const when = isRecord(message) ? (message.timestamp ?? message.created_at) : null;
  return typeof when === 'string' && /^\d{4}-\d\d-\d\d[T ]/.test(when) ? when : undefined;
};

/** By their own times where all have one of a kind, otherwise as they stand; lines may have been shuffled. */
function inOrder(list: readonly PlacedRecord[]): readonly PlacedRecord[] {
  const members = list.map((one) => ({ ...one, when: whenOf(one.native) }));
  if (!members.every(({ when }) => when !== undefined)) return list;
  return members.toSorted((a, b) => (a.when === b.when ? a.at - b.at : a.when! < b.when! ? -1 : 1));
}

const timestampOf = (message: JsonObject): unknown => message.timestamp ?? message.created_at;

/** What a message holds of one call of a model: hints added to its input, its output, and the results of its tools. */
type Part = {
  readonly hints: readonly Block[];
  readonly written: readonly Block[];
  readonly results: readonly Block[];
};

/** A reply of version 2 is one message, however many calls it took: what stands behind the results of tools is of the next call. */
function partsOf(blocks: readonly Block[]): readonly [Part, ...Part[]] {
  type Open = { readonly hints: Block[]; readonly written: Block[]; readonly results: Block[] };
  const open = (): Open => ({ hints: [], written: [], results: [] });
  const parts: [Open, ...Open[]] = [open()];
  for (const block of blocks) {
    const last = parts.at(-1)!;
    if (block.type === 'tool_result') last.results.push(block);
    else {
      const isNext = last.results.length > 0 || (block.type === 'hint' && last.written.length > 0);
      const part = isNext ? open() : last;
      if (isNext) parts.push(part);
      (block.type === 'hint' ? part.hints : part.written).push(block);
    }
  }
  return parts;
}

function addTurn(trace: Trace, { at, message: native, blocks }: Turn, next: () => number): void {
  const message = new Reader(native);
  const name = message.ownId('name');
  const role = message.any('role') as string;
  const when = timestampOf(message.native);
  const time = timeOfText(when);
  message.these('id', 'content', 'timestamp', 'created_at');
  if (role === 'assistant') trace.member(name);
  const parts = partsOf(blocks);
  // A hint behind the last answer is for a call that was not made.
  const calls = parts.filter(({ written, results }) => written.length > 0 || results.length > 0).length;
  for (const [n, { hints, written, results }] of parts.entries()) {
    const id = n === 0 ? `m${at}` : `m${at}/${n}`;
    const isLast = n === parts.length - 1;
    for (const [i, hint] of hints.entries()) addHint(trace, hint, { seq: next(), id: `${id}/hint${i}`, name, time });
    const seq = next();
    const about = { seq, native: { ids: given('id', native.id), timestamp: when } };
    const content = written.length === 1 && typeof native.content === 'string' ? native.content : written.map(partOf);
    // A model that wrote tokens was called, also where the message shows none of them.
    const wrote = written.length > 0 || (isLast && results.length === 0 && outputTokensOf(native) > 0);
    if (role === 'assistant' && wrote) {
      const usage = isLast ? usageOf(message.record('usage')) : undefined;
      const reason = isLast ? message.text('finished_reason') : undefined;
      const data = {
        call_id: id,
        agent_id: name,
        choices: [{ index: 0, content: written.length > 0 ? content : undefined, finish_reason: reason }],
        usage,
        // The usage of the whole reply is recorded at its last call: there is no usage per call.
        flags: usage && calls > 1 ? ['usage_of_several_calls'] : undefined,
        error: isLast ? message.any('error') : undefined,
        unmapped: isLast ? message.filledRest() : undefined,
      };
      trace.add('generation.completed', [seq], { ...about, ...data }, time);
    } else if (written.length > 0 || blocks.length === 0) {
      const data = { message_id: id, from: name, role, content, unmapped: message.filledRest() };
      trace.add('message.sent', [seq], { ...about, ...data }, time);
    }
    addTools(trace, { written, results }, { seq, call_id: id, agent_id: name }, time);
  }
}

/** A hint is shown to the model as a message of a user. */
function addHint(
  trace: Trace,
  { hint, source, id, created_at: created }: Block,
  place: { readonly seq: number; readonly id: string; readonly name: string; readonly time: string | null },
): void {
  const data = {
    message_id: place.id,
    // The display name of a member, or what the framework says of itself as JSON.
    from: isIdentifier(source) && !source.startsWith('{') ? source : 'system',
    to: [place.name],
    role: 'user',
    content: outputOf(hint) as Content | undefined,
    native: { ids: given('id', id), source: source ?? undefined },
  };
  const { seq } = place;
  trace.add('message.sent', [seq], { seq, ...data }, timeOfText(created) ?? place.time);
}

function addTools(
  trace: Trace,
  { written, results }: Omit<Part, 'hints'>,
  call: { readonly seq: number; readonly call_id: string; readonly agent_id: string },
  time: string | null,
): void {
  const { seq } = call;
  let index = 0;
  for (const [i, { type, id, name, input, ...rest }] of written.entries()) {
    if (!CALLS.has(type)) continue;
    const data = {
      tool_call_id: trace.ledger.call(id as string),
      index: index++,
      name: name as string,
      type: 'function',
      ...readArguments(input),
      native: { tool_call_id: id },
      unmapped: without(rest),
    };
    trace.add('tool.called', [seq, i], { ...call, ...data }, timeOfText(rest.created_at) ?? time);
  }
  for (const [i, { type: _, id, output, ...rest }] of results.entries()) {
    const data = {
      tool_call_id: trace.ledger.result(id as string),
      status: ownOf(STATES, asText(rest.state ?? 'success')) ?? 'ok',
      output: outputOf(output),
      native: { tool_call_id: id },
      unmapped: without(rest),
    };
    trace.add('tool.returned', [seq, written.length + i], { seq, ...data }, timeOfText(rest.finished_at) ?? time);
  }
}

const STATES: Readonly<Record<string, 'ok' | 'error' | 'cancelled' | 'denied'>> = {
  success: 'ok',
  error: 'error',
  interrupted: 'cancelled',
  denied: 'denied',
};
