/** Messages as TRL and the chat templates of transformers read them: arguments are objects, and only members that occur are there. */
import type { Shape } from '../shape.ts';
import { argumentsOf, type Message } from './message.ts';
import type { Held } from './turn.ts';

export const TRL_HOLDS: readonly Held[] = ['names of speakers', 'reasoning', 'tool calls', 'ids of tool calls'];

/** Content is text throughout: templates add it to other text. Arguments that are no object stay the text that the model wrote. */
export const trlMessage = (message: Message): Readonly<Record<string, unknown>> => ({
  role: message.role,
  content: message.text ?? '',
  name: message.name,
  reasoning_content: message.reasoning,
  tool_call_id: message.callId,
  tool_calls:
    message.calls.length === 0
      ? null
      : message.calls.map((call) => ({
          id: call.id,
          type: 'function',
          function: { name: call.name, arguments: argumentsOf(call) ?? call.written },
        })),
});

/** A list of messages with the members that occur among `messages`. */
export function trlMessagesShape(messages: Iterable<Message>): Shape {
  const seen = { name: false, reasoning_content: false, tool_call_id: false, tool_calls: false };
  for (const { name, reasoning, callId, calls } of messages) {
    seen.name ||= name !== null;
    seen.reasoning_content ||= reasoning !== null;
    seen.tool_call_id ||= callId !== null;
    seen.tool_calls ||= calls.length > 0;
  }
  const asked: Shape = { struct: { name: 'text', arguments: 'json' } };
  return {
    list: {
      struct: {
        role: 'text',
        content: 'text',
        ...(seen.name ? { name: 'text' } : {}),
        ...(seen.reasoning_content ? { reasoning_content: 'text' } : {}),
        ...(seen.tool_calls ? { tool_calls: { list: { struct: { id: 'text', type: 'text', function: asked } } } } : {}),
        ...(seen.tool_call_id ? { tool_call_id: 'text' } : {}),
      },
    },
  };
}

/** Definitions of tools, where any row has some. */
export const toolsShape = (turns: Iterable<{ readonly tools: unknown }>): Readonly<Record<string, Shape>> => {
  for (const { tools } of turns) if (tools !== null) return { tools: { list: 'json' } };
  return {};
};

/** Weights of rows, where any row has one. TRL leaves the column alone; its trainers have no weights. */
export const weightShape = (turns: Iterable<{ readonly weight: number | null }>): Readonly<Record<string, Shape>> => {
  for (const { weight } of turns) if (weight !== null) return { weight: 'number' };
  return {};
};

/** Which step a row is; trainers leave these columns alone. */
export const ID_SHAPES = { episode_id: 'text', step_id: 'text' } as const;
