/**
 * What a model is taught, in the form in which chat templates take it. Of a tool call it learns the text of the arguments: where a source
 * gives an object, the text is written here, in the order and spelling of the source, since the log keeps objects in the order of canonical
 * JSON, which is for digests alone. Tools that were offered are a list, also where a source keeps it as JSON in a text.
 */
import { isRecord, type JsonObject } from './json.ts';
import { knownOf, writeOnce } from './known-json.ts';
import { parseWritten, writtenArguments } from './spelling.ts';

const hasNoText = ({ arguments: asked, arguments_raw: raw }: JsonObject): boolean => isRecord(asked) && raw == null;

const isCall = (part: unknown): part is JsonObject => isRecord(part) && part.type === 'tool_call' && hasNoText(part);

const withText = (call: JsonObject): JsonObject => ({ ...call, arguments_raw: writtenArguments(call.arguments) });

/** The same messages or choices where no call in them lacks its text. */
function inParts(holders: unknown, one: (holder: JsonObject) => JsonObject): unknown {
  if (!Array.isArray(holders)) return holders;
  let copy: unknown[] | null = null;
  for (let i = 0; i < holders.length; i++) {
    const holder = holders[i] as unknown;
    const now = isRecord(holder) && Array.isArray(holder.content) && holder.content.some(isCall) ? one(holder) : holder;
    if (now === holder) continue;
    copy ??= [...holders];
    copy[i] = now;
  }
  return copy ?? holders;
}

const withTexts = (holder: JsonObject): JsonObject => ({
  ...holder,
  content: (holder.content as readonly unknown[]).map((part) => (isCall(part) ? withText(part) : part)),
});

/** Each call of a conversation repeats the messages of the call before it, which stay the same objects. */
const WRITTEN = new WeakMap<object, JsonObject>();

function messageWithTexts(message: JsonObject): JsonObject {
  const known = WRITTEN.get(message);
  if (known !== undefined) return known;
  const written = withTexts(message);
  if (knownOf(message) !== undefined) writeOnce(written);
  WRITTEN.set(message, written);
  return written;
}

/** Definitions of tools; JSON in a text is read, and a text that is none stays one. */
function definitions(tools: unknown): unknown {
  if (typeof tools !== 'string' || !/^\s*[[{]/.test(tools)) return tools;
  const read = parseWritten(tools);
  return 'value' in read && (Array.isArray(read.value) || isRecord(read.value)) ? read.value : tools;
}

/** The data of an event with the text of the arguments beside each object of arguments, and tools as a list; the same data where all is so. */
export function asTaught<T>(name: string, data: T): T {
  if (!isRecord(data)) return data;
  const withTools = (given: T): T => {
    const tools = definitions(data.tools);
    return tools === data.tools ? given : { ...given, tools };
  };
  const changed = (member: string, now: unknown): T => (now === data[member] ? data : { ...data, [member]: now });
  switch (name) {
    case 'tool.called':
      return hasNoText(data) ? (withText(data) as T) : data;
    case 'generation.requested':
      return withTools(changed('input', inParts(data.input, messageWithTexts)));
    case 'agent.defined':
      return withTools(data);
    case 'generation.completed':
      return changed('choices', inParts(data.choices, withTexts));
    case 'message.sent':
      return Array.isArray(data.content) && data.content.some(isCall) ? (withTexts(data) as T) : data;
    default:
      return data;
  }
}
