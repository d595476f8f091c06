/**
 * Messages as the OpenAI API takes them (openai 3.57.0, types/chat; its files of fine-tuning are `FineTuneChatRequestInput` and
 * `FineTunePreferenceRequestInput` of its OpenAPI), and as trainers do that read the same with thoughts: arguments are JSON text, and
 * members that are null are left out.
 */
import type { Message } from './message.ts';
import type { HeldTurn } from './turn.ts';

export const OPENAI_HOLDS: readonly HeldTurn[] = [
  'names of speakers',
  'tool calls',
  'ids of tool calls',
  'tool definitions',
];

export function openaiMessage(message: Message): Readonly<Record<string, unknown>> {
  const { role, text, name, callId, calls } = message;
  return {
    role,
    ...(text === null && calls.length > 0 ? {} : { content: text ?? '' }),
    ...(name === null ? {} : { name }),
    ...(callId === null ? {} : { tool_call_id: callId }),
    ...(calls.length === 0
      ? {}
      : {
          tool_calls: calls.map((call, i) => ({
            id: call.id ?? `call_${i}`,
            type: 'function',
            function: { name: call.name, arguments: call.written },
          })),
        }),
  };
}

/** With its thoughts, where trainers that read the format of OpenAI look for them. */
export const thinkingMessage = (message: Message): Readonly<Record<string, unknown>> => ({
  ...openaiMessage(message),
  ...(message.reasoning === null ? {} : { reasoning_content: message.reasoning }),
});
