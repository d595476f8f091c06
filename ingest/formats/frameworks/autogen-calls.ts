/**
 * Logs of model calls: the events of AutoGen since 0.4 (`EVENT_LOGGER_NAME`, one a line) and the runtime logging of AutoGen 0.2 and AG2,
 * the rows of its table `chat_completions` or the lines of its file, in which an answer is the `repr` of an object of the client library.
 */
import { given, hashId, isRecord, type JsonObject, without } from '../../events/json.ts';
import { parseWritten } from '../../events/spelling.ts';
import { isIdentifier } from '../../events/text.ts';
import { textIn } from '../kit/chat-message.ts';
import { pythonLiterals } from '../kit/python-literals.ts';

const isEvent = ({ type, messages, response }: JsonObject): boolean =>
  type === 'LLMCall' && Array.isArray(messages) && isRecord(response);

const isRow = (record: JsonObject): boolean => 'invocation_id' in record && 'request' in record && 'response' in record;

/** True for a line that holds a call of a model. */
export const isLoggedCall = (record: JsonObject): boolean => isEvent(record) || isRow(record);

/** Events that hold no whole call (autogen_core.logging). */
const OTHER_EVENTS =
  /^(?:Message(?:Dropped|HandlerException)?|ToolCall|LLMStream(?:Start|End)|AgentConstructionException)$/;

/** What else such a log holds, none of which is read: the kind of the line; null for any other record. */
export function otherLine(record: JsonObject): string | null {
  const { type, event_name: name } = record;
  if ('source_id' in record && 'agent_module' in record) return typeof name === 'string' ? name : 'function';
  if ('wrapper_id' in record && 'session_id' in record) return 'agent_name' in record ? 'agent' : 'client';
  const isEvent = 'receiver' in record || 'agent_id' in record || 'handling_agent' in record;
  return isEvent && typeof type === 'string' && OTHER_EVENTS.test(type) ? type : null;
}

/** A logged call as the record `{request, response}` of a completion log. */
export function completionOf(record: JsonObject): JsonObject {
  if (isEvent(record)) {
    const { messages, tools, response, agent_id: id } = record;
    const request = { messages, ...given('tools', tools), ...metadataOf({ agent: agentIn(id) }) };
    return { ...without(record, 'type', 'messages', 'tools', 'response'), request, response };
  }
  const { source_name: agent } = record;
  const request = valueIn(record.request);
  const response = valueIn(record.response);
  return {
    ...without(record, 'request', 'response', 'source_name'),
    request: isRecord(request)
      ? { ...request, ...metadataOf({ agent, run_id: runOf(record.session_id, request) }) }
      : request,
    response: isRecord(response) ? response : typeof response === 'string' ? { error: response } : response,
  };
}

/** A session of logging may hold chats about several things: those that a user began with the same text are one run. */
function runOf(session: unknown, { messages }: JsonObject): string | undefined {
  if (!isIdentifier(session)) return undefined;
  const asked = Array.isArray(messages) ? messages.find((one) => isRecord(one) && one.role === 'user') : undefined;
  return hashId(session, textIn(isRecord(asked) ? asked.content : undefined) ?? null);
}

function metadataOf(named: JsonObject): JsonObject {
  const metadata = Object.fromEntries(Object.entries(named).filter(([, value]) => isIdentifier(value)));
  return Object.keys(metadata).length === 0 ? {} : { metadata };
}

/** The name in `TYPE/KEY`, where a team names the type of its agent `NAME_KEY`. */
function agentIn(id: unknown): string | undefined {
  if (typeof id !== 'string') return undefined;
  const [type = '', ...rest] = id.split('/');
  const key = rest.join('/');
  return key !== '' && type.endsWith(`_${key}`) ? type.slice(0, -key.length - 1) : type;
}

/** What a text of the log holds: JSON, or the `repr` of an object; any other text as it is. */
function valueIn(value: unknown): unknown {
  if (typeof value !== 'string') return value;
  const parsed = parseWritten(value);
  if ('value' in parsed) return parsed.value;
  const literals = pythonLiterals(value);
  return literals?.length === 1 ? literals[0] : value;
}
