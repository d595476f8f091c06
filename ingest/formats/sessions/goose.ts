/**
 * Sessions of Goose (crates/goose/src/conversation/message.rs): what `goose session export --format json` gives, with the messages in
 * `conversation`, and the JSON Lines of versions before 1.10, whose first line describes the session.
 */
import { asText, isRecord, type JsonObject } from '../../events/json.ts';
import { writtenArguments } from '../../events/spelling.ts';
import { isIdentifier } from '../../events/text.ts';
import type { ChatMessage } from '../kit/chat-message.ts';
import type { Conversion, NativeRecord } from '../kit/format.ts';
import { conversationTrace, type ListedMessage } from '../kit/message-list.ts';
import { format, Reader, unreadable } from '../kit/reader.ts';
import { timeOfMixed, timeOfSeconds } from '../kit/run.ts';

const NAME = 'goose';

const isMessage = (one: unknown): one is JsonObject =>
  isRecord(one) &&
  (one.role === 'user' || one.role === 'assistant') &&
  typeof one.created === 'number' &&
  Array.isArray(one.content) &&
  one.content.every((part) => isRecord(part) && typeof part.type === 'string');

const areMessages = (list: unknown): boolean => Array.isArray(list) && list.length > 0 && list.every(isMessage);

export const goose = format({
  name: NAME,
  summary:
    'Sessions of Goose: {id, working_dir, conversation: [{role, created, content}]}, and older ones with a message a line',
  called: 'a session with its messages',
  recognises: (one) => areMessages([one]) || areMessages(one.conversation),
  gathers: ({ records, shape }) => (shape === 'lines' && records.some(isMessage) ? 'file' : null),
  convert: (session, record) =>
    conversionOf(session, session.list('conversation', 'a list of messages'), 'conversation', record),
  convertAll([first, ...rest], record) {
    const isHead = isRecord(first) && !isMessage(first);
    return conversionOf(new Reader(isHead ? first : {}), isHead ? rest : [first, ...rest], '', record);
  },
});

function conversionOf(session: Reader, list: readonly unknown[], field: string, record: NativeRecord): Conversion {
  const bad = list.findIndex((one) => !isMessage(one));
  if (bad >= 0) unreadable('bad_shape', `${field}[${bad}]`, 'a message {role, created, content}', list[bad]);
  const messages = list as readonly JsonObject[];
  const id = session.id('id');
  const [first] = messages;
  const config = session.object('model_config');
  const model = config?.id('model_name');
  // Of a session that was summarised it is unknown which messages an answer was still shown.
  const shown = !messages.some(({ metadata }) => isRecord(metadata) && metadata.agentVisible === false);
  const { trace, task, flags } = conversationTrace(
    NAME,
    record,
    messages.flatMap((message) => listedOf(message, model)),
    { field, run: id ?? `${asText(session.native.working_dir)}/${asText(first?.created)}`, shown },
  );
  const names = Object.keys(session.native).filter((name) => /_tokens$|_cost$/.test(name));
  const totals = session.these(...names);
  const begin = timeOfMixed(session.any('created_at')) ?? timeOfSeconds(first?.created);
  const end = timeOfMixed(session.any('updated_at')) ?? timeOfSeconds(messages.at(-1)?.created);
  return trace.finish({
    task,
    started: {
      native: { format: NAME, ids: id === undefined ? undefined : { id } },
      flags,
      unmapped: session.filledRest(),
    },
    startedAt: begin,
    finished: { outcome: 'unknown', totals },
    finishedAt: end,
  });
}

function listedOf({ role, content, created }: JsonObject, model: string | undefined): ListedMessage[] {
  const parts = content as readonly JsonObject[];
  const at = timeOfSeconds(created);
  const results = parts
    .filter(({ type, id }) => type === 'toolResponse' && isIdentifier(id))
    .map((part) => ({ at, message: resultOf(part) }));
  const calls = parts.flatMap(({ type, id, toolCall }) =>
    /^(?:toolR|frontendToolR)equest$/.test(asText(type)) ? callOf(id, toolCall) : [],
  );
  const thoughts = parts.flatMap(({ type, thinking }) => (type === 'thinking' ? [asText(thinking)] : []));
  const rest = parts.filter(
    ({ type }) => !/^(?:tool(?:Request|Response)|frontendToolRequest|thinking)$/.test(asText(type)),
  );
  const [only] = rest;
  const words = rest.length === 1 && only!.type === 'text' ? only!.text : rest.length === 0 ? null : rest;
  if (role === 'user') return [...results, ...(words === null ? [] : [{ at, message: { role, content: words } }])];
  const message: ChatMessage = {
    role: 'assistant',
    content: words,
    ...(thoughts.length > 0 ? { reasoning_content: thoughts.join('\n') } : {}),
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
  };
  return [{ at, message, completed: model === undefined ? {} : { response_model: model } }];
}

/** What the model wrote as a call, or what was wrong with it. */
function callOf(id: unknown, toolCall: unknown): JsonObject[] {
  const { value, error } = isRecord(toolCall) ? toolCall : {};
  const asked = isRecord(value) && isIdentifier(value.name) ? value : { name: 'unknown', arguments: { error } };
  return [{ id, type: 'function', function: { name: asked.name, arguments: writtenArguments(asked.arguments ?? {}) } }];
}

/** The result is a list of contents, in newer versions with a mark of failure around it. */
function resultOf({ id, toolResult }: JsonObject): ChatMessage {
  const { status, value, error } = isRecord(toolResult) ? toolResult : {};
  const contents = isRecord(value) ? value.content : value;
  const texts = Array.isArray(contents)
    ? contents.map((part: unknown) => (isRecord(part) ? part.text : undefined))
    : [];
  const isText = texts.length > 0 && texts.every((text) => typeof text === 'string');
  const failed = status === 'error' || (isRecord(value) && value.isError === true);
  return {
    role: 'tool',
    tool_call_id: id,
    content: status === 'error' ? asText(error) : isText ? texts.join('\n') : writtenArguments(contents ?? null),
    ...(failed ? { is_error: true } : {}),
  };
}
