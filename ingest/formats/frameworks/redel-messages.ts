/** Messages of kani, the library under ReDel: their text, their tool calls and their other members. */
import { given, isRecord, type JsonObject, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { type ChatMessage, readArguments, toMessage } from '../kit/chat-message.ts';
import { partsOf } from '../kit/parts.ts';

type Ask = { readonly id: string | null; readonly name: string; readonly asked: ReturnType<typeof readArguments> };

/** The output of the model with what it requested: a list of tool calls, or one function call without an id. */
export function answerOf(native: JsonObject & { readonly role: string }) {
  const { function_call: single, tool_calls: several, ...fields } = native;
  const list =
    Array.isArray(several) && several.length > 0 ? several : isRecord(single) ? [{ id: null, function: single }] : [];
  const asks = list.flatMap((call: unknown): Ask[] => {
    const asked = isRecord(call) && isRecord(call.function) ? call.function : {};
    if (!isRecord(call) || !isIdentifier(asked.name)) return [];
    const id = isIdentifier(call.id) ? call.id : null;
    return [{ id, name: asked.name, asked: readArguments(asked.arguments) }];
  });
  const message = toMessage({
    role: 'assistant',
    ...given(
      'content',
      typeof fields.content === 'string' || fields.content == null ? fields.content : partsOf(fields.content),
    ),
    ...(asks.length > 0
      ? {
          tool_calls: asks.map(({ id, name, asked }) => ({
            id: id ?? name,
            type: 'function',
            function: { name, arguments: asked.arguments_raw ?? asked.arguments },
          })),
        }
      : {}),
  } as ChatMessage);
  return { message, asks };
}

/** The text of a message; empty for one without content. */
export const textOf = ({ content }: JsonObject) =>
  content === undefined || content === null ? {} : { content: partsOf(content) };

/** Members of a message that are not empty and have no place. */
export function restOf(event: JsonObject, native: JsonObject): { unmapped?: Record<string, unknown> } {
  const more = Object.entries(
    without(native, 'role', 'content', 'function_call', 'tool_calls', 'tool_call_id', 'is_tool_call_error') ?? {},
  ).filter(([, value]) => value !== null && !(isRecord(value) && Object.keys(value).length === 0));
  return given(
    'unmapped',
    without({
      ...without(event, 'type', 'timestamp', 'id', 'msg'),
      ...(more.length > 0 ? { msg: Object.fromEntries(more) } : {}),
    }),
  );
}
