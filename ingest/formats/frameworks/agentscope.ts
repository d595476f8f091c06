/**
 * AgentScope: the messages of a run, one a line. The list of them is the record, named by its first message, so that a file that has
 * grown is the same run. In version 1 tool results come in a message of their own, in version 2 within the assistant's, which holds all
 * calls of a reply. A saved state of version 2 holds the messages of its session, one of version 1 (of a memory, an agent, or a session
 * with a member for each agent) the messages in the memories of its agents.
 */
import type { Content, Draft } from '../../events/events.ts';
import { asText, canonicalJson, given, hashId, isRecord, type JsonObject, ownOf, without } from '../../events/json.ts';
import { pushAll } from '../../events/push-all.ts';
import { writtenJson } from '../../events/spelling.ts';
import { isIdentifier } from '../../events/text.ts';
import { readArguments } from '../kit/chat-message.ts';
import { toolLedger } from '../kit/conversation.ts';
import type { Conversion, Format, NativeRecord, NativeRefusal } from '../kit/format.ts';
import { marksOf } from '../kit/marks.ts';
import { refusal, refused, revisedEmitter } from '../kit/native.ts';
import { NO_TOKEN_IDS, runDrafts, taskOf, timeOfText } from '../kit/run.ts';
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
const emit = revisedEmitter(NAME);

export const agentscope: Format = {
  name: NAME,
  summary: 'AgentScope messages, one a line: {id, name, role, content: text or blocks, timestamp | created_at}',
  recognises: ({ records }) =>
    records.some(
      (record) =>
        isState(record) ||
        memoryIn(record) !== null ||
        (isRecord(record) &&
          'name' in record &&
          'role' in record &&
          'content' in record &&
          'metadata' in record &&
          ('timestamp' in record || 'created_at' in record)),
    ),
  gathers: () => 'file',
  joins: {
    names: namesOf,
    episodes: namesOf,
    marks: (message) => {
      const blocks = placed([message]).flatMap(({ native }) =>
        badMessage(native) === null ? blocksOf((native as JsonObject).content) : [],
      );
      const ids = (is: (type: string) => boolean) => blocks.filter(({ type }) => is(type)).map(({ id }) => id);
      return marksOf(
        ids((type) => CALLS.has(type)),
        ids((type) => type === 'tool_result'),
      );
    },
    timeOf: (message) => whenOf(message) ?? null,
    needsName: false,
  },
  convert,
  restates: new Set(['task.defined']),
};

/** `at` is the number of the message in its run. */
type Turn = { readonly at: number; readonly message: JsonObject; readonly blocks: readonly Block[] };

function convert(record: NativeRecord): Conversion {
  const list = listed(record.value);
  if (list.length === 0) return refused(refusal('bad_shape', '', 'at least one message', list));
  const refusals: NativeRefusal[] = [];
  const messages = placed(list);
  const runs: Conversion[] = [...statesIn(list)].map(([session, states]) =>
    runOf(record, contextOf(states), { session, states }),
  );
  if (messages.length > 0) runs.push(runOf(record, messages));
  for (const run of runs) pushAll(refusals, run.refusals);
  const drafts = runs.flatMap((run) => run.drafts);
  const bodies = runs.flatMap((run) => run.bodies ?? []);
  return { drafts, refusals, raw: null, bodies, repeated: record.ordinal > 0 };
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
  const episodeId = state?.session ?? hashId(NAME, canonicalJson(first!.message));
  const original = writtenJson(state?.states ?? ordered.map(({ native }) => native));
  const asked = turns.find(({ message }) => message.role === 'user');
  const metadata = isRecord(asked?.message.metadata) ? asked.message.metadata : {};
  const agents = new Set(
    turns.filter(({ message }) => message.role === 'assistant').map(({ message }) => message.name as string),
  );
  // A run begins with what somebody asks; what begins with an answer may be the later part of a file. A state with a summary has lost
  // the messages that it sums up.
  const isCut = state
    ? first === undefined || refusals.length > 0 || state.states.some(({ summary }) => isGiven(summary))
    : first!.message.role === 'assistant' || namesOf(ordered.map(({ native }) => native)).length === 0;
  const drafts = runDrafts(emit, {
    format: NAME,
    episodeId,
    canonical: original,
    task: taskOf(NAME, isCut ? undefined : textOf(asked?.blocks ?? []), {}, metadata.task_id),
    started: { flags: [NO_TOKEN_IDS, ...(isCut ? ['incomplete'] : [])], ...given('session_id', state?.session) },
    startedAt: first ? timeOf(first.message) : null,
    agents,
    events: messageDrafts(episodeId, turns),
    finished: { outcome: 'unknown' },
  });
  return { drafts, refusals, raw: null, bodies: [original], repeated: record.ordinal > 0 };
}

const listed = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [value]);

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

const timeOf = (message: JsonObject): string | null => timeOfText(message.timestamp ?? message.created_at);

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

function messageDrafts(episodeId: string, turns: readonly Turn[]): Draft[] {
  const ledger = toolLedger();
  let seq = 0;
  return turns.flatMap(({ at, message, blocks }): Draft[] => {
    const time = timeOf(message);
    const parts = partsOf(blocks);
    // A hint behind the last answer is for a call that was not made.
    const calls = parts.filter(({ written, results }) => written.length > 0 || results.length > 0).length;
    return parts.flatMap(({ hints, written, results }, n): Draft[] => {
      const id = n === 0 ? `m${at}` : `m${at}/${n}`;
      const isLast = n === parts.length - 1;
      const shown = hints.map((hint, i) => hintDraft(hint, message, `${id}/hint${i}`, seq++));
      const own = { id, time, content: written, isLast, several: calls > 1 };
      const place = { episode_id: episodeId, seq: seq++ };
      const tools = { ...place, call_id: id, agent_id: message.name as string };
      let index = 0;
      return [
        ...shown,
        ...partDrafts(message, { blocks, results }, place, own),
        ...written.flatMap((block, i) =>
          CALLS.has(block.type) ? [calledDraft(block, { ...tools, index: index++ }, i, time)] : [],
        ),
        ...results.map((block, i) => returnedDraft(block, place, written.length + i, time)),
      ];
    });
  });

  function partDrafts(
    message: JsonObject,
    { blocks, results }: { readonly blocks: readonly Block[]; readonly results: readonly Block[] },
    place: { readonly episode_id: string; readonly seq: number },
    own: {
      readonly id: string;
      readonly time: string | null;
      readonly content: readonly Block[];
      readonly isLast: boolean;
      readonly several: boolean;
    },
  ): Draft[] {
    const { role, name, usage, finished_reason: reason } = message as JsonObject & { name: string };
    const { id, time, content, isLast, several } = own;
    const plain = content.length === 1 && typeof message.content === 'string' ? message.content : content.map(partOf);
    const native = {
      native: { ids: given('id', message.id), ...given('timestamp', message.timestamp ?? message.created_at) },
    };
    // A model that wrote tokens was called, also where the message shows none of them.
    const wrote = content.length > 0 || (isLast && results.length === 0 && outputTokensOf(message) > 0);
    if (role === 'assistant' && wrote) {
      const usageHere = isLast ? usageOf(usage) : undefined;
      return [
        emit.event(
          'generation.completed',
          [episodeId, place.seq],
          {
            ...place,
            call_id: id,
            agent_id: name,
            choices: [
              {
                index: 0,
                ...(content.length > 0 ? { content: plain } : {}),
                ...(isLast && typeof reason === 'string' ? { finish_reason: reason } : {}),
              },
            ],
            ...given('usage', usageHere),
            // The usage of the whole reply is recorded at its last call: there is no usage per call.
            ...(usageHere && several ? { flags: ['usage_of_several_calls'] } : {}),
            ...(isLast ? given('error', message.error ?? undefined) : {}),
            ...native,
            ...(isLast ? given('unmapped', restOf(message)) : {}),
          },
          time,
        ),
      ];
    }
    if (content.length === 0 && blocks.length > 0) return [];
    return [
      emit.event(
        'message.sent',
        [episodeId, place.seq],
        {
          ...place,
          message_id: id,
          from: name,
          role: role as string,
          content: plain,
          ...native,
          ...given('unmapped', restOf(message)),
        },
        time,
      ),
    ];
  }

  /** A hint is shown to the model as a message of a user. */
  function hintDraft(block: Block, message: JsonObject, id: string, seq: number): Draft {
    const { hint, source } = block;
    return emit.event(
      'message.sent',
      [episodeId, seq],
      {
        episode_id: episodeId,
        seq,
        message_id: id,
        // The display name of a member, or what the framework says of itself as JSON.
        from: isIdentifier(source) && !source.startsWith('{') ? source : 'system',
        to: [message.name as string],
        role: 'user',
        ...given('content', outputOf(hint) as Content | undefined),
        native: { ids: given('id', block.id), ...given('source', source ?? undefined) },
      },
      timeOfText(block.created_at) ?? timeOf(message),
    );
  }

  function calledDraft(
    block: Block,
    call: { episode_id: string; seq: number; index: number },
    i: number,
    time: string | null,
  ): Draft {
    const own = ledger.call(block.id as string);
    return emit.event(
      'tool.called',
      [episodeId, call.seq, i],
      {
        ...call,
        tool_call_id: own,
        name: block.name as string,
        type: 'function',
        ...readArguments(block.input),
        native: { tool_call_id: block.id },
        ...given('unmapped', without(block, 'type', 'id', 'name', 'input')),
      },
      timeOfText(block.created_at) ?? time,
    );
  }

  function returnedDraft(
    block: Block,
    place: { episode_id: string; seq: number },
    i: number,
    time: string | null,
  ): Draft {
    return emit.event(
      'tool.returned',
      [episodeId, place.seq, i],
      {
        ...place,
        tool_call_id: ledger.result(block.id as string),
        status: ownOf(STATES, asText(block.state ?? 'success')) ?? 'ok',
        ...given('output', outputOf(block.output)),
        native: { tool_call_id: block.id },
        ...given('unmapped', without(block, 'type', 'id', 'output')),
      },
      timeOfText(block.finished_at) ?? time,
    );
  }
}

const STATES: Readonly<Record<string, 'ok' | 'error' | 'cancelled' | 'denied'>> = {
  success: 'ok',
  error: 'error',
  interrupted: 'cancelled',
  denied: 'denied',
};

/** A field with its empty value carries no information. */
function restOf(message: JsonObject): Record<string, unknown> | undefined {
  const known = ['id', 'name', 'role', 'content', 'timestamp', 'created_at', 'error'];
  const read = [
    ...(isRecord(message.usage) ? ['usage'] : []),
    ...(typeof message.finished_reason === 'string' ? ['finished_reason'] : []),
  ];
  const rest = Object.entries(without(message, ...known, ...read) ?? {}).filter(
    ([, value]) => value !== null && !(isRecord(value) && Object.keys(value).length === 0),
  );
  return rest.length === 0 ? undefined : Object.fromEntries(rest);
}
