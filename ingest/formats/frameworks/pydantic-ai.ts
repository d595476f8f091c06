/** Messages of Pydantic AI (pydantic_ai/messages.py), as `result.all_messages_json()` writes them: requests and responses in parts. */
import { asText, given, isRecord, type JsonObject } from '../../events/json.ts';
import { writtenArguments } from '../../events/spelling.ts';
import type { ChatMessage } from '../kit/chat-message.ts';
import { type ListedMessage, messageList } from '../kit/message-list.ts';
import { timeOfText } from '../kit/run.ts';
import { usageOf } from '../kit/usage.ts';

export const pydanticAi = messageList({
  name: 'pydantic-ai',
  summary: 'Pydantic AI messages [{kind: "request" | "response", parts: [{part_kind}]}]',
  isMessage: ({ kind, parts }) =>
    (kind === 'request' || kind === 'response') &&
    Array.isArray(parts) &&
    parts.every((part) => isRecord(part) && typeof part.part_kind === 'string'),
  member: 'messages',
  read(list) {
    let instructions: unknown;
    return list.flatMap((native): ListedMessage[] => {
      const parts = native.parts as readonly JsonObject[];
      if (native.kind === 'response') return [responseOf(native, parts)];
      // Instructions stand beside the parts of each request; they are a message where they are new.
      const isNew = typeof native.instructions === 'string' && native.instructions !== instructions;
      instructions = native.instructions ?? instructions;
      const opening: ListedMessage[] = isNew ? [{ message: { role: 'system', content: native.instructions } }] : [];
      return [...opening, ...parts.map(askedIn)];
    });
  },
});

function askedIn({
  part_kind: kind,
  content,
  tool_call_id: id,
  tool_name: tool,
  timestamp,
  outcome,
}: JsonObject): ListedMessage {
  const at = timeOfText(timestamp);
  const isResult = kind === 'tool-return' || (kind === 'retry-prompt' && tool != null);
  const text =
    typeof content === 'string' ? content : isResult ? writtenArguments(content ?? null) : contentOf(content);
  if (isResult)
    return {
      at,
      message: {
        role: 'tool',
        tool_call_id: id,
        content: text,
        ...(kind === 'retry-prompt' || (outcome ?? 'success') !== 'success' ? { is_error: true } : {}),
      },
    };
  return { at, message: { role: kind === 'system-prompt' ? 'system' : 'user', content: text } };
}

/** Texts as they are; images, documents and links as parts of their kind. */
const contentOf = (content: unknown): unknown =>
  (Array.isArray(content) ? content : [content]).map((one: unknown) =>
    typeof one === 'string'
      ? { type: 'text', text: one }
      : { type: isRecord(one) ? asText(one.kind ?? 'raw') : 'raw', ...given('content', one) },
  );

function responseOf(native: JsonObject, parts: readonly JsonObject[]): ListedMessage {
  const kinds = (kind: string) => parts.filter(({ part_kind: is }) => is === kind);
  const calls = kinds('tool-call').map(({ tool_call_id: id, tool_name: name, args }) => ({
    id,
    type: 'function',
    function: { name, arguments: typeof args === 'string' ? args : writtenArguments(args ?? {}) },
  }));
  const texts = kinds('text').map(({ content }) => asText(content));
  const others = parts.filter(({ part_kind: is }) => !/^(?:text|tool-call|thinking)$/.test(asText(is)));
  const thoughts = kinds('thinking')
    .map(({ content }) => asText(content))
    .filter((text) => text !== '');
  const [text = null, ...more] = texts;
  const content =
    more.length + others.length === 0
      ? text
      : [
          ...texts.map((one) => ({ type: 'text', text: one })),
          ...others.map((part) => ({ type: asText(part.part_kind), content: part })),
        ];
  const message: ChatMessage = {
    role: 'assistant',
    content,
    ...(thoughts.length > 0 ? { reasoning_content: thoughts.join('\n') } : {}),
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
    ...given('finish_reason', native.finish_reason ?? undefined),
  };
  const { model_name: model, provider_response_id: id } = native;
  return {
    message,
    at: timeOfText(native.timestamp),
    completed: {
      ...given('response_model', typeof model === 'string' ? model : undefined),
      ...given('response_id', typeof id === 'string' ? id : undefined),
      ...given('usage', usageOf(native.usage)),
    },
  };
}
