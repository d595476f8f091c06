/**
 * AutoGen AgentChat: a TaskResult, the messages of a team in order, or the saved state of a team (`save_state`, read from what version
 * 0.7.5 writes), whose manager holds them. A message that used a model is a step; a
 * thought before it and the tool summary after it belong to that step. Dumps of AutoGen 0.2 and AG2 (`chat_history`) name no models.
 */
import type { Part } from '../../events/events.ts';
import { asText, given, isRecord, type JsonObject, ownOf, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { kindOf } from '../kit/authors.ts';
import { CHAT_ROLES, readArguments } from '../kit/chat-message.ts';
import { APPARENT_ERROR } from '../kit/conversation.ts';
import type { Conversion, NativeRecord } from '../kit/format.ts';
import { partsOf } from '../kit/parts.ts';
import { format, Reader } from '../kit/reader.ts';
import { taskOf, timeOfText } from '../kit/run.ts';
import { Trace } from '../kit/trace.ts';
import { usageOf } from '../kit/usage.ts';
import { convertCompletionLog, LOG_RESTATES } from '../training/completion-log.ts';
import { completionOf, isLoggedCall, otherLine } from './autogen-calls.ts';
import { type AutogenMessage, BEGUN, type NumberedMessage, OUTPUT, oldMessages } from './autogen-history.ts';

const NAME = 'autogen';

export const autogen = format({
  name: NAME,
  summary:
    'AutoGen task results {messages: [{source, type, content, models_usage}], stop_reason}, states of teams, chat_history of 0.2 and AG2',
  called: 'a task result object',
  recognises: (record, { records, shape }) =>
    (shape === 'array' && isGroupMessage(record) && !records.some(isUnnamed)) ||
    isLoggedCall(record) ||
    otherLine(record) !== null ||
    [threadIn(record) ?? record.messages, record.chat_history]
      .filter(Array.isArray)
      .some((list, i) =>
        list.some((one) => isRecord(one) && isMessage(one, record.chat_history !== undefined && i === 0)),
      ),
  gathers: ({ records, shape }) => (shape === 'array' && records.some(isGroupMessage) ? 'file' : null),
  convert,
  convertAll: (history, record) => convert(new Reader({ chat_history: history }), record),
  restates: LOG_RESTATES,
});

/** The messages in the saved state of a team: its manager, under whatever name, saw all of them. */
function threadIn({ agent_states: states }: JsonObject): readonly unknown[] | undefined {
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

function convert(row: Reader, record: NativeRecord): Conversion {
  const { native: result, problems } = row;
  if (isLoggedCall(result)) return convertCompletionLog(NAME, completionOf(result), record);
  const other = otherLine(result);
  if (other !== null) return { drafts: [], refusals: [], raw: null, unread: [other] };
  const thread = threadIn(result);
  const old = !thread && !Array.isArray(result.messages) && result.chat_history !== undefined;
  const field = old ? 'chat_history' : 'messages';
  const list = thread ?? row.list(field, LIST);
  row.these(field, 'agent_states');
  const named = thread ? 'message_thread' : 'messages';
  const messages = old
    ? oldMessages(list, problems)
    : new Reader({ [named]: list }, '', problems).each(named, LIST, 'a message object', messageIn);
  const asked = messages.find(
    ({ seq, message }) => (message.source === 'user' || (old && seq === 0)) && typeof message.content === 'string',
  );
  const taskId = messages
    .map(({ message: { metadata } }) => (isRecord(metadata) ? metadata.task_id : undefined))
    .find(isIdentifier);
  const trace = Trace.of(NAME, record);
  for (const { message } of messages) if (kindOf(message.source) === 'agent') trace.member(message.source);
  addMessages(trace, messages);
  return trace.finish(
    {
      task: taskOf(NAME, asked?.message.content, {}, taskId),
      startedAt: timeOfText(messages[0]?.message.created_at),
      finished: {
        outcome: 'unknown',
        seq: list.length,
        stop_reason: row.text('stop_reason'),
        unmapped: row.rest(),
      },
    },
    problems,
  );
}

const LIST = 'a list of messages';

function messageIn(message: Reader, seq: number): NumberedMessage {
  message.text('type', 'the type of the message');
  message.ownId('source');
  return { seq, message: message.native as AutogenMessage };
}

function addMessages(trace: Trace, messages: readonly NumberedMessage[]): void {
  const thoughts = new Map<string, string[]>();
  for (const numbered of messages) {
    const { seq, message } = numbered;
    const { type, source, content } = message;
    if (type === CHUNK) continue;
    if (type === 'ThoughtEvent' && typeof content === 'string') {
      thoughts.set(source, [...(thoughts.get(source) ?? []), content]);
      // A thought that nothing follows still becomes an event.
      const isFollowed = messages.some(
        (later) => later.seq > seq && later.message.source === source && isStep(later.message),
      );
      if (!isFollowed) addOther(trace, numbered);
    } else if (type === 'ToolCallExecutionEvent') addResults(trace, numbered);
    else if (isStep(message)) {
      addStep(trace, numbered, thoughts.get(source) ?? []);
      thoughts.delete(source);
      addHandoffs(trace, numbered);
    } else {
      if (type !== 'SelectSpeakerEvent') addOther(trace, numbered);
      addHandoffs(trace, numbered);
    }
  }
}

/** Only a model requests tools, whether or not its token usage is given. */
const isStep = ({ type, source, models_usage: usage }: AutogenMessage): boolean =>
  kindOf(source) === 'agent' &&
  type !== 'ThoughtEvent' &&
  type !== 'ToolCallExecutionEvent' &&
  (isRecord(usage) || type === 'ToolCallRequestEvent' || type === 'chat_history');

const nativeOf = ({ id, type }: AutogenMessage) => ({ type, ids: given('id', id) });

function aboutOf({ seq, message: native }: NumberedMessage) {
  const message = new Reader(native);
  message.these('id', 'source', 'type', 'content', 'created_at', 'target');
  message.record('models_usage');
  if ('role' in native) message.these('name', 'role', 'text');
  if (Object.keys(message.record('metadata') ?? {}).length > 0) message.leave('metadata');
  return { seq, native: nativeOf(native), unmapped: message.rest() };
}

function addStep(trace: Trace, numbered: NumberedMessage, thoughts: readonly string[]): void {
  const { seq, message } = numbered;
  const { type, source, content, text } = message;
  const time = timeOfText(message.created_at);
  const asks = type === 'ToolCallRequestEvent' ? asksIn(content) : [];
  const parts: Part[] = asks.map(({ id, name, asked }) => ({
    type: 'tool_call',
    id,
    name,
    arguments: asked.arguments ?? asked.arguments_raw,
  }));
  const textPart = (written: string): Part => ({ type: 'text', content: written });
  const whole =
    type === 'ToolCallRequestEvent'
      ? [...(typeof text === 'string' ? [textPart(text)] : []), ...parts]
      : partsOf(content);
  const reasons = thoughts.map((thought): Part => ({ type: 'reasoning', content: thought }));
  const answer =
    reasons.length === 0 ? whole : [...reasons, ...(typeof whole === 'string' ? [textPart(whole)] : whole)];
  const call = { call_id: `m${seq}`, agent_id: source };
  const choices = [{ index: 0, content: answer }];
  const data = { ...aboutOf(numbered), ...call, choices, usage: usageOf(message.models_usage) };
  trace.add('generation.completed', [seq], data, time);
  for (const [index, { id, name, asked, unmapped }] of asks.entries())
    trace.tool(seq, index, id, { ...call, name, type: 'function', ...asked, unmapped }, time);
}

/** Calls that have a name and an id; of anything else nothing can be called or answered. */
const asksIn = (content: unknown) =>
  (Array.isArray(content) ? content.filter(isRecord) : []).flatMap(({ id, name, arguments: written, ...rest }) =>
    isIdentifier(id) && isIdentifier(name)
      ? [{ id, name, asked: readArguments(written), unmapped: without(rest) }]
      : [],
  );

function addResults(trace: Trace, { seq, message: { content, created_at: created } }: NumberedMessage): void {
  for (const [index, result] of (Array.isArray(content) ? content.filter(isRecord) : []).entries()) {
    const { call_id: id, content: output, is_error: failed, ...rest } = result;
    if (!isIdentifier(id)) continue;
    // AutoGen 0.2 marks no tool as failed: its executor puts the error into the text.
    const apparent = failed === undefined && typeof output === 'string' && output.startsWith('Error: ');
    const data = {
      seq,
      tool_call_id: trace.ledger.result(id),
      status: failed === true ? ('error' as const) : ('ok' as const),
      output,
      flags: apparent ? [APPARENT_ERROR] : undefined,
      native: { tool_call_id: id },
      unmapped: without(rest),
    };
    trace.add('tool.returned', [seq, index], data, timeOfText(created));
  }
}

const OBSERVED: Readonly<Record<string, string>> = {
  CodeExecutionEvent: 'output',
  [OUTPUT]: 'output',
  MemoryQueryEvent: 'memory',
  UserInputRequestedEvent: 'input_requested',
};

/** What no model wrote: a message, or what the environment showed. */
function addOther(trace: Trace, numbered: NumberedMessage): void {
  const { seq, message } = numbered;
  const { type, source, content = message.result } = message;
  const time = timeOfText(message.created_at);
  const by = kindOf(source);
  const kind = type === 'ThoughtEvent' ? undefined : by === 'environment' ? 'output' : ownOf(OBSERVED, type);
  const about = aboutOf(numbered);
  if (kind !== undefined) {
    trace.add('environment.observed', [seq], { ...about, kind, content }, time);
    return;
  }
  const data = {
    message_id: `m${seq}`,
    from: source,
    role: by === 'user' || type === BEGUN ? 'user' : undefined,
    content: partsOf(message.content),
    flags: type === 'ToolCallSummaryMessage' ? ['repeats_results'] : undefined,
  };
  trace.add('message.sent', [seq], { ...about, ...data }, time);
}

function addHandoffs(trace: Trace, { seq, message }: NumberedMessage): void {
  const { type, source, target, content } = message;
  const to = type === 'HandoffMessage' ? [target] : type === 'SelectSpeakerEvent' ? [content].flat() : [];
  const about = { seq, kind: type === 'HandoffMessage' ? ('handoff' as const) : ('select' as const) };
  for (const [i, name] of to.filter(isIdentifier).entries()) {
    const data = { ...about, from_agent: source, to_agent: name, native: nativeOf(message) };
    trace.add('control.transferred', [seq, i], data, timeOfText(message.created_at));
  }
}
