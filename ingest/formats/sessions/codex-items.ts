/** Lines of a Codex rollout and the items of the Responses API they hold. */
import type { Message, Part } from '../../events/events.ts';
import { asText, given, isRecord, type JsonObject, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import type { ChatToolCall } from '../kit/chat-message.ts';
import type { NativeRefusal } from '../kit/format.ts';
import { badIdentifier, refusal } from '../kit/native.ts';
import { calledIn } from '../kit/openai-responses.ts';

/** A line that passed `badLine`; `seq` is its place in the file. */
export type Line = {
  readonly seq: number;
  readonly type: string;
  readonly timestamp: unknown;
  readonly payload: JsonObject;
  /** Its number in the rollout, which versions before 2026 did not write. */
  readonly ordinal?: number;
};

const TYPES = new Set([
  'session_meta',
  'response_item',
  'event_msg',
  'turn_context',
  'compacted',
  'world_state',
  'token_usage_record',
]);

export const isRolloutLine = (record: unknown): boolean =>
  isRecord(record) && TYPES.has(record.type as string) && isRecord(record.payload) && 'timestamp' in record;

/** Why a line cannot be read; null where it can. Types of lines and items that are not known pass. */
export function badLine(native: unknown): NativeRefusal | null {
  if (!isRecord(native)) return refusal('bad_type', '', 'an object', native);
  if (typeof native.type !== 'string') return refusal('bad_type', 'type', 'a text', native.type);
  const { payload } = native;
  if (!isRecord(payload)) return refusal('bad_type', 'payload', 'an object', payload);
  if (native.type === 'session_meta') return badIdentifier(payload.id, 'payload.id');
  if (native.type !== 'response_item') return null;
  if (typeof payload.type !== 'string') return refusal('bad_type', 'payload.type', 'a text', payload.type);
  if (payload.type === 'message') {
    if (typeof payload.role !== 'string' || payload.role === '')
      return refusal('bad_type', 'payload.role', 'a text', payload.role);
    if (!Array.isArray(payload.content) || !payload.content.every(isRecord))
      return refusal('bad_type', 'payload.content', 'a list of parts', payload.content);
    return null;
  }
  if (/_output$/.test(payload.type)) return badIdentifier(payload.call_id, 'payload.call_id');
  if (payload.type !== 'function_call' && payload.type !== 'custom_tool_call') return null;
  return badIdentifier(payload.call_id, 'payload.call_id') ?? badIdentifier(payload.name, 'payload.name');
}

/** Whether the model wrote this item. */
export const isAnswer = (item: JsonObject): boolean =>
  item.type === 'reasoning' || callOf(item) !== null || (item.type === 'message' && item.role === 'assistant');

/** The tool call of an item. What the model server ran had no id until 2026 (`web_search_call` of 0.104): its kind names it. */
export const callOf = (item: JsonObject): ChatToolCall | null =>
  calledIn(isIdentifier(item.call_id) || isIdentifier(item.id) ? item : { ...item, id: item.type });

/** The content of an item, as parts. */
export function partsOf(item: JsonObject): Part[] {
  if (item.type === 'message') return (item.content as readonly unknown[]).map(textPart);
  if (item.type === 'reasoning') {
    const texts = [item.summary, item.content].flatMap((list) => (Array.isArray(list) ? list : []));
    const hidden = given('encrypted_content', item.encrypted_content ?? undefined);
    return texts.length === 0
      ? [{ type: 'reasoning', ...hidden }]
      : texts.map((one, i) => ({
          type: 'reasoning',
          content: isRecord(one) ? one.text : one,
          ...(i === 0 ? hidden : {}),
        }));
  }
  const call = callOf(item);
  return call
    ? [{ type: 'tool_call', id: call.id, name: call.name, arguments: call.arguments ?? call.arguments_raw } as Part]
    : [];
}

function textPart(part: unknown): Part {
  if (!isRecord(part)) return { type: 'json', content: part };
  if (typeof part.text === 'string')
    return { ...without(part, 'type', 'text', 'annotations'), type: 'text', content: part.text };
  return { ...part, type: typeof part.type === 'string' && part.type !== '' ? part.type : 'json' };
}

/** An item as a later call is shown it; null for one that a model is not shown as words. */
export function shownOf(item: JsonObject): Message | null {
  if (isAnswer(item)) return { role: 'assistant', content: partsOf(item) };
  if (item.type === 'message' && Array.isArray(item.content))
    return { role: item.role as string, content: partsOf(item) };
  if (!/_output$/.test(asText(item.type))) return null;
  return { role: 'tool', content: outputOf(item), tool_call_id: item.call_id } as Message;
}

export const resultOf = ({ output, tools }: JsonObject): unknown =>
  isRecord(output) && 'content' in output ? output.content : (output ?? tools);

/** The output of a tool: a text, parts, or in old versions `{content, success}`. */
export function outputOf(item: JsonObject): string | Part[] {
  const result = resultOf(item);
  if (typeof result === 'string') return result;
  return (Array.isArray(result) ? result : result == null ? [] : [result]).map(textPart);
}

/** What Codex adds to a conversation in the name of the user. */
const ADDED =
  /^\s*(<(environment_context|user_instructions|turn_aborted|subagent_notification|skill|user_shell_command)|# AGENTS\.md)/;

/** The text that a person wrote; null for any other item. */
export function promptOf(item: JsonObject): string | null {
  if (item.type !== 'message' || item.role !== 'user') return null;
  const text = partsOf(item)
    .flatMap(({ content }) => (typeof content === 'string' ? [content] : []))
    .join('\n');
  return text.trim() === '' || ADDED.test(text) ? null : text;
}
