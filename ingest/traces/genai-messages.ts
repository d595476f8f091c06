/**
 * Messages of the OpenTelemetry GenAI conventions, `{role, parts, name?, finish_reason?}`, as ours: their parts are our parts. Older
 * events held them one by one, with the members of the OpenAI chat API.
 */
import type { Message, Part } from '../events/events.ts';
import { given, isRecord, without } from '../events/json.ts';
import { badMessage, type ChatMessage, toMessage } from '../formats/kit/chat-message.ts';
import { contentOf, finishReason, jsonIn, messageOf } from '../formats/kit/span-attributes.ts';
import type { Choice } from './trace.ts';

/** The messages in an attribute (JSON text or a list); undefined where it cannot be read. */
export function messagesIn(value: unknown): Message[] | undefined {
  const list = jsonIn(value);
  return Array.isArray(list) ? list.map(toGenaiMessage) : undefined;
}

/** Instructions are parts without a role. */
export function instructionsIn(value: unknown): string | Part[] | undefined {
  const list = jsonIn(value);
  if (typeof value === 'string' && !Array.isArray(list)) return value === '' ? undefined : value;
  return Array.isArray(list) ? contentOf(list.map(toPart)) : undefined;
}

/** Each output message is a candidate. */
export function choicesIn(value: unknown, reasons: readonly unknown[]): Choice[] | undefined {
  const list = jsonIn(value);
  if (!Array.isArray(list)) return undefined;
  return list.map((one: unknown, index) => {
    const { content } = toGenaiMessage(one);
    const reason = finishReason(isRecord(one) ? one.finish_reason : undefined) ?? finishReason(reasons[index]);
    return { index, ...given('content', content), ...given('finish_reason', reason) };
  });
}

export function toGenaiMessage(value: unknown): Message {
  if (!isRecord(value)) return messageOf('unknown', [{ type: 'raw', content: value }]);
  const { role, parts, finish_reason: _, ...rest } = value;
  if (Array.isArray(parts)) return messageOf(role, parts.map(toPart), rest);
  if (typeof role === 'string' && badMessage(value, '') === null) return toMessage(value as ChatMessage);
  const { content } = value;
  const blocks = Array.isArray(content) ? content.map(toPart) : content === undefined ? [] : [textOrRaw(content)];
  return messageOf(role, blocks, without(rest, 'content') ?? {});
}

function toPart(value: unknown): Part {
  if (!isRecord(value)) return textOrRaw(value);
  if (typeof value.type !== 'string' || value.type === '') return converseBlock(value);
  const { response } = value;
  const areBlocks = value.type === 'tool_call_response' && Array.isArray(response) && response.every(isConverse);
  return { ...value, ...(areBlocks ? { response: contentOf(response.map(toPart)) } : {}) } as Part;
}

const isConverse = (block: unknown): boolean => isRecord(block) && block.type === undefined && 'text' in block;

/** A block of Amazon's Converse API, which has one member that says what it is (Strands Agents 1.62, telemetry/tracer.py). */
function converseBlock(block: Readonly<Record<string, unknown>>): Part {
  const { text, toolUse: asked, toolResult: result, reasoningContent: reasoning } = block;
  if (typeof text === 'string') return { ...without(block, 'text'), type: 'text', content: text };
  if (isRecord(asked)) {
    const { toolUseId: id, name, input, ...rest } = asked;
    return { ...rest, type: 'tool_call', id, name, arguments: input } as Part;
  }
  if (isRecord(result)) {
    const { toolUseId: id, content, ...rest } = result;
    const response = Array.isArray(content) ? contentOf(content.map(toPart)) : content;
    return { ...rest, type: 'tool_call_response', id, response } as Part;
  }
  const thought = isRecord(reasoning) ? reasoning.reasoningText : undefined;
  if (isRecord(thought)) return { ...without(thought, 'text'), type: 'reasoning', content: thought.text ?? null };
  return { type: 'raw', content: block };
}

const textOrRaw = (value: unknown): Part =>
  typeof value === 'string' ? { type: 'text', content: value } : { type: 'raw', content: value };
