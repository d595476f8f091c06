/** Items of the OpenAI Responses API as messages and parts: messages, function calls and their outputs, reasoning. */
import type { Message, Part } from '../events.ts';
import { isRecord } from '../json.ts';
import { given, without } from './native.ts';
import { messageOf } from './span-attributes.ts';

type Fields = Readonly<Record<string, unknown>>;

/** Input items as messages; a plain text is a message of the user. */
export function responseInput(input: unknown, instructions?: unknown): Message[] {
  const system =
    typeof instructions === 'string' && instructions !== '' ? [{ role: 'system', content: instructions }] : [];
  const items = Array.isArray(input) ? input : [input];
  return [...system, ...items.map(toMessage)];
}

/** Output items as the parts of one answer. */
export const responseContent = (output: readonly unknown[]): Part[] => output.flatMap(toParts);

function toMessage(item: unknown): Message {
  if (typeof item === 'string') return { role: 'user', content: item };
  if (!isRecord(item)) return messageOf('unknown', [{ type: 'raw', content: item }]);
  if (item.type === 'function_call_output') {
    return messageOf('tool', [{ type: 'text', content: textOf(item.output) }], {
      ...given('tool_call_id', item.call_id),
    });
  }
  const role = item.role ?? (item.type === 'function_call' || item.type === 'reasoning' ? 'assistant' : 'unknown');
  return messageOf(role, toParts(item));
}

const textOf = (output: unknown): unknown => (typeof output === 'string' ? output : (output ?? null));

function toParts(item: unknown): Part[] {
  if (!isRecord(item)) return [{ type: 'raw', content: item }];
  if (item.type === 'function_call') {
    const { call_id: id, name, arguments: asked } = item as Fields;
    return [{ type: 'tool_call', id, name, arguments: asked } as Part];
  }
  if (item.type === 'reasoning') {
    const texts = [item.summary, item.content].flatMap((list) => (Array.isArray(list) ? list.map(textPart) : []));
    return texts.map((content) => ({ type: 'reasoning', content }));
  }
  const { content } = item;
  if (typeof content === 'string') return [{ type: 'text', content }];
  if (!Array.isArray(content)) return [{ type: 'raw', content: item }];
  return content.map((part: unknown) =>
    isRecord(part) && typeof part.text === 'string'
      ? { ...without(part, 'type', 'text', 'annotations', 'logprobs'), type: 'text', content: part.text }
      : ({
          ...(isRecord(part) ? part : { content: part }),
          type: isRecord(part) && typeof part.type === 'string' ? part.type : 'raw',
        } as Part),
  );
}

const textPart = (part: unknown): unknown => (isRecord(part) && typeof part.text === 'string' ? part.text : part);
