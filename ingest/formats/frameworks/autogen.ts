/**
 * AutoGen AgentChat: a TaskResult, the messages of a team in order, or the saved state of a team (`save_state`, read from what version
 * 0.7.5 writes), whose manager holds them. A message that used a model is a step; a
 * thought before it and the tool summary after it belong to that step. Dumps of AutoGen 0.2 and AG2 (`chat_history`) name no models.
 */
import type { Draft, Part } from '../../events/events.ts';
import { asText, given, isRecord, ownOf, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { kindOf } from '../kit/authors.ts';
import { CHAT_ROLES } from '../kit/chat-message.ts';
import { toolLedger } from '../kit/conversation.ts';
import type { Conversion, Format, NativeRecord, NativeRefusal } from '../kit/format.ts';
import { badIdentifier, type Emitter, emitterFor, recordId, refusal, refused } from '../kit/native.ts';
import { partsOf } from '../kit/parts.ts';
import { NO_TOKEN_IDS, runDrafts, taskOf, timeOfText } from '../kit/run.ts';
import { usageOf } from '../kit/usage.ts';
import { convertCompletionLog } from '../training/completion-log.ts';
import { completionOf, isLoggedCall, otherLine } from './autogen-calls.ts';
import { BEGUN, OUTPUT, oldMessages } from './autogen-history.ts';
import { type AutogenMessage, autogenTools } from './autogen-tools.ts';

const NAME = 'autogen';

export const autogen: Format = {
  name: NAME,
  summary:
    'AutoGen task results {messages: [{source, type, content, models_usage}], stop_reason}, states of teams, chat_history of 0.2 and AG2',
  recognises: ({ records, shape }) =>
    records.some(
      (record) =>
        (shape === 'array' && isGroupMessage(record) && !records.some(isUnnamed)) ||
        (isRecord(record) && (isLoggedCall(record) || otherLine(record) !== null)) ||
        (isRecord(record) &&
          [threadIn(record) ?? record.messages, record.chat_history]
            .filter(Array.isArray)
            .some((list, i) =>
              list.some((one) => isRecord(one) && isMessage(one, record.chat_history !== undefined && i === 0)),
            )),
    ),
  gathers: ({ records, shape }) => (shape === 'array' && records.some(isGroupMessage) ? 'file' : null),
  convert,
  restates: new Set(['task.defined', 'episode.started', 'episode.finished', 'agent.defined', 'tool.returned']),
};

/** The messages in the saved state of a team: its manager, under whatever name, saw all of them. */
function threadIn({ agent_states: states }: Record<string, unknown>): readonly unknown[] | undefined {
  const threads = Object.values(isRecord(states) ? states : {}).map((state) => isRecord(state) && state.message_thread);
  return threads.find((thread): thread is unknown[] => Array.isArray(thread));
}

/** A message in the history of a group chat (`GroupChat.messages`), which is written as a list. */
const isGroupMessage = (one: unknown): boolean =>
  isRecord(one) &&
  isIdentifier(one.name) &&
  CHAT_ROLES.has(asText(one.role)) &&
  'content' in one &&
  !('tool_call_id' in one) &&
  !isTimed(one);

/** In a group chat all who speak have names, and nobody is the system: such a list is messages of the chat API. */
const isUnnamed = (one: unknown): boolean =>
  isRecord(one) && (one.role === 'system' || (one.role === 'user' && !isIdentifier(one.name)));

/** As messages of AgentScope are. */
const isTimed = (one: Record<string, unknown>): boolean => 'timestamp' in one || 'created_at' in one;

/** A chunk of a stream is repeated in the message after it. */
const CHUNK = 'ModelClientStreamingChunkEvent';

const isMessage = (one: Record<string, unknown>, old: boolean): boolean =>
  old
    ? 'role' in one && 'content' in one
    : 'source' in one && ('models_usage' in one || ('type' in one && !MODEL_MESSAGES.has(one.type)));

/** What goes to a model and comes from it (autogen_core.models); it is no message of a team. */
const MODEL_MESSAGES: ReadonlySet<unknown> = new Set([
  'SystemMessage',
  'UserMessage',
  'AssistantMessage',
  'FunctionExecutionResultMessage',
]);

function convert(record: NativeRecord): Conversion {
  const result = Array.isArray(record.value) ? { chat_history: record.value } : record.value;
  if (!isRecord(result)) return refused(refusal('bad_type', '', 'a task result object', result));
  if (isLoggedCall(result)) return convertCompletionLog(emitterFor(NAME), NAME, completionOf(result), record);
  const other = otherLine(result);
  if (other !== null) return { drafts: [], refusals: [], raw: null, unread: [other] };
  const thread = threadIn(result);
  const field =
    thread || Array.isArray(result.messages) || result.chat_history === undefined ? 'messages' : 'chat_history';
  const list = thread ?? result[field];
  if (!Array.isArray(list)) return refused(refusal('bad_type', field, 'a list of messages', list));
  const emit = emitterFor(NAME);
  const episodeId = recordId(NAME, record);
  const refusals: NativeRefusal[] = [];
  const read =
    field === 'messages'
      ? list.map((native: unknown, seq) => badMessage(native, `${thread ? 'message_thread' : field}[${seq}]`))
      : oldMessages(list);
  const messages = read.flatMap((message, seq) => {
    if ('code' in message) refusals.push(message as NativeRefusal);
    return 'code' in message ? [] : [{ seq, message: message as AutogenMessage }];
  });
  const asked = messages.find(
    ({ seq, message }) =>
      (message.source === 'user' || (field === 'chat_history' && seq === 0)) && typeof message.content === 'string',
  );
  const agents = new Set(messages.map(({ message }) => message.source).filter((name) => kindOf(name) === 'agent'));
  const { stop_reason: reason } = result;
  return {
    drafts: runDrafts(emit, {
      format: NAME,
      episodeId,
      canonical: record.canonical,
      task: taskOf(NAME, asked?.message.content, {}, taskIdIn(messages)),
      started: { flags: [NO_TOKEN_IDS, ...(refusals.length > 0 ? ['incomplete'] : [])] },
      startedAt: timeOfText(messages[0]?.message.created_at),
      agents,
      events: messageDrafts(emit, episodeId, messages),
      finished: {
        outcome: 'unknown',
        seq: list.length,
        ...(typeof reason === 'string' ? { stop_reason: reason } : {}),
        ...given(
          'unmapped',
          without(result, field, 'agent_states', ...(typeof reason === 'string' ? ['stop_reason'] : [])),
        ),
      },
    }),
    refusals,
    raw: record.canonical,
  };
}

/** The task that the first message with one names in its metadata. */
const taskIdIn = (messages: readonly { readonly message: AutogenMessage }[]): string | undefined =>
  messages.map(({ message: { metadata } }) => (isRecord(metadata) ? metadata.task_id : undefined)).find(isIdentifier);

function badMessage(native: unknown, field: string): AutogenMessage | NativeRefusal {
  if (!isRecord(native)) return refusal('bad_type', field, 'a message object', native);
  if (typeof native.type !== 'string')
    return refusal('bad_type', `${field}.type`, 'the type of the message', native.type);
  return badIdentifier(native.source, `${field}.source`) ?? (native as AutogenMessage);
}

type NumberedMessage = { readonly seq: number; readonly message: AutogenMessage };

function messageDrafts(emit: Emitter, episodeId: string, messages: readonly NumberedMessage[]): Draft[] {
  const thoughts = new Map<string, string[]>();
  const tools = autogenTools(emit, episodeId, toolLedger());
  return messages.flatMap(({ seq, message }): Draft[] => {
    const { type, source, content } = message;
    const place = { episode_id: episodeId, seq };
    const time = timeOfText(message.created_at);
    if (type === CHUNK) return [];
    if (type === 'ThoughtEvent' && typeof content === 'string') {
      thoughts.set(source, [...(thoughts.get(source) ?? []), content]);
      // A thought that nothing follows still becomes an event.
      const followed = messages.some(
        (later) => later.seq > seq && later.message.source === source && isStep(later.message),
      );
      return followed ? [] : [messageDraft(emit, message, place, time)];
    }
    if (type === 'ToolCallExecutionEvent') return tools.results(message, seq, time);
    const handed = handOver(emit, message, place, time);
    if (!isStep(message)) return [...observed(emit, message, place, time), ...handed];
    const reasons: Part[] = (thoughts.get(source) ?? []).map((thought) => ({ type: 'reasoning', content: thought }));
    thoughts.delete(source);
    const call = { ...place, call_id: `m${seq}`, agent_id: source };
    const text: Part[] = typeof message.text === 'string' ? [{ type: 'text', content: message.text }] : [];
    const whole = type === 'ToolCallRequestEvent' ? [...text, ...tools.parts(content)] : partsOf(content);
    const parts = typeof whole === 'string' ? [{ type: 'text', content: whole }] : whole;
    return [
      emit.event(
        'generation.completed',
        [episodeId, seq],
        {
          ...call,
          choices: [{ index: 0, content: reasons.length === 0 ? whole : [...reasons, ...parts] }],
          ...given('usage', usageOf(message.models_usage)),
          native: nativeOf(message),
          ...given('unmapped', restOf(message)),
        },
        time,
      ),
      ...(type === 'ToolCallRequestEvent' ? tools.calls(message, call, time) : []),
      ...handed,
    ];
  });
}

/** Only a model requests tools, whether or not its token usage is given. */
const isStep = ({ type, source, models_usage: usage }: AutogenMessage): boolean =>
  kindOf(source) === 'agent' &&
  type !== 'ThoughtEvent' &&
  type !== 'ToolCallExecutionEvent' &&
  (isRecord(usage) || type === 'ToolCallRequestEvent' || type === 'chat_history');

type Place = { readonly episode_id: string; readonly seq: number };

const nativeOf = ({ id, type }: AutogenMessage): Record<string, unknown> => ({ type, ids: given('id', id) });

const restOf = (message: AutogenMessage): Record<string, unknown> | undefined => {
  const { metadata, ...rest } = message;
  const empty = isRecord(metadata) && Object.keys(metadata).length === 0;
  return without(
    empty ? rest : { ...rest, ...given('metadata', metadata) },
    'id',
    'source',
    'type',
    'content',
    'created_at',
    'models_usage',
    'target',
    ...('role' in message ? ['name', 'role', 'text'] : []),
  );
};

const messageDraft = (emit: Emitter, message: AutogenMessage, place: Place, time: string | null): Draft =>
  emit.event(
    'message.sent',
    [place.episode_id, place.seq],
    {
      ...place,
      message_id: `m${place.seq}`,
      from: message.source,
      ...(kindOf(message.source) === 'user' || message.type === BEGUN ? { role: 'user' } : {}),
      content: partsOf(message.content),
      native: nativeOf(message),
      ...(message.type === 'ToolCallSummaryMessage' ? { flags: ['repeats_results'] } : {}),
      ...given('unmapped', restOf(message)),
    },
    time,
  );

const OBSERVED: Readonly<Record<string, string>> = {
  CodeExecutionEvent: 'output',
  [OUTPUT]: 'output',
  MemoryQueryEvent: 'memory',
  UserInputRequestedEvent: 'input_requested',
};

function observed(emit: Emitter, message: AutogenMessage, place: Place, time: string | null): Draft[] {
  const kind = kindOf(message.source) === 'environment' ? 'output' : ownOf(OBSERVED, message.type);
  if (message.type === 'SelectSpeakerEvent') return [];
  if (kind === undefined) return [messageDraft(emit, message, place, time)];
  const { content = message.result } = message;
  return [
    emit.event(
      'environment.observed',
      [place.episode_id, place.seq],
      { ...place, kind, content, native: nativeOf(message), ...given('unmapped', restOf(message)) },
      time,
    ),
  ];
}

function handOver(emit: Emitter, message: AutogenMessage, place: Place, time: string | null): Draft[] {
  const { type, source, target, content } = message;
  const to = type === 'HandoffMessage' ? [target] : type === 'SelectSpeakerEvent' ? [content].flat() : [];
  const kind = type === 'HandoffMessage' ? ('handoff' as const) : ('select' as const);
  return to
    .filter(isIdentifier)
    .map((name, i) =>
      emit.event(
        'control.transferred',
        [place.episode_id, place.seq, i],
        { ...place, from_agent: source, to_agent: name, kind, native: nativeOf(message) },
        time,
      ),
    );
}
