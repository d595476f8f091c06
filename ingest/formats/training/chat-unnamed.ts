/**
 * Tool calls without an id or without `function`, as messages of the chat API that have both: `function_call` and role `function` of the
 * API before November 2023, and the messages of chat templates, where calls may be flat and a result answers the call before it.
 */
import { isRecord, type JsonObject, without } from '../../events/json.ts';

type Call = JsonObject & { readonly id: unknown; readonly function?: unknown };

/** The messages with an id for each call, by its place, and for each result that of the oldest open call of its name. */
export function withCallIds(messages: unknown): unknown {
  if (!Array.isArray(messages) || !messages.some(isUnnamed)) return messages;
  let open: Call[] = [];
  return messages.map((message: unknown, i): unknown => {
    if (!isRecord(message)) return message;
    const { role, function_call: single, tool_calls: several, tool_call_id: answered } = message;
    if (role === 'function' || (role === 'tool' && (answered == null || answered === ''))) {
      const call = open.find((one) => nameOf(one) === message.name) ?? (message.name == null ? open[0] : undefined);
      open = open.filter((one) => one !== call);
      return call ? { ...message, role: 'tool', tool_call_id: call.id } : message;
    }
    if (role === 'tool') open = open.filter(({ id }) => id !== answered);
    if (role !== 'assistant') return message;
    const calls = isRecord(single) && several == null ? [{ type: 'function', function: single }] : several;
    if (!Array.isArray(calls)) return message;
    const named = calls.map((call: unknown, n) =>
      needsWrapping(call) ? { id: `call/${i}/${n}`, ...wrapped(call) } : call,
    );
    open = named.filter((call): call is Call => isRecord(call));
    return { ...(calls === several ? message : without(message, 'function_call')), tool_calls: named };
  });
}

const isFlat = (call: JsonObject): boolean =>
  typeof call.name === 'string' && call.function === undefined && call.custom === undefined;

const isNameless = ({ id }: JsonObject): boolean => id == null || id === '';

const needsWrapping = (call: unknown): call is JsonObject => isRecord(call) && (isNameless(call) || isFlat(call));

/** A call with its function as a member, without an id that is null or empty. */
function wrapped(call: JsonObject): JsonObject {
  const named = isNameless(call) ? (without(call, 'id') ?? {}) : call;
  if (!isFlat(call)) return named;
  const { arguments: asked = call.args ?? call.input ?? {}, name } = call;
  return {
    ...without(named, 'name', 'arguments', 'args', 'input', 'type'),
    type: 'function',
    function: { name, arguments: asked },
  };
}

/** What the chat API asks for stays as it is, also a result that lacks its call. */
const isUnnamed = (message: unknown): boolean =>
  isRecord(message) &&
  (isRecord(message.function_call) || (Array.isArray(message.tool_calls) && message.tool_calls.some(needsWrapping)));

const nameOf = ({ function: asked }: Call): unknown => (isRecord(asked) ? asked.name : undefined);
