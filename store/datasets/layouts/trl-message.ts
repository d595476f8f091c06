/** Messages as TRL and the chat templates of transformers read them: arguments are objects. */
import type { ValueShape } from '../shape.ts';
import { argumentsOf, type Message } from './message.ts';
import type { HeldTurn } from './turn.ts';

export const TRL_HOLDS: readonly HeldTurn[] = ['names of speakers', 'reasoning', 'tool calls', 'ids of tool calls'];

/**
 * Content is text throughout: templates add it to other text. Arguments that are no object stay the text that the model wrote. A member that a
 * message does not have is not there: templates ask `'tool_calls' in message`, and TRL hands them what it reads.
 */
export const trlMessage = ({
  role,
  text,
  name,
  reasoning,
  callId,
  calls,
}: Message): Readonly<Record<string, unknown>> => ({
  role,
  content: text ?? '',
  ...(name === null ? {} : { name }),
  ...(reasoning === null ? {} : { reasoning_content: reasoning }),
  ...(callId === null ? {} : { tool_call_id: callId }),
  ...(calls.length === 0
    ? {}
    : {
        tool_calls: calls.map((call) => ({
          ...(call.id === null ? {} : { id: call.id }),
          type: 'function',
          function: { name: call.name, arguments: argumentsOf(call) ?? call.written },
        })),
      }),
});

/** A list of messages. As structs of one type each would have the members of all, as null. */
export const MESSAGES: ValueShape = { list: 'json' };

/** Definitions of tools, where any row has some. */
export const toolsShape = (turns: Iterable<{ readonly tools: unknown }>): Readonly<Record<string, ValueShape>> => {
  for (const { tools } of turns) if (tools !== null) return { tools: { list: 'json' } };
  return {};
};

/** Weights of rows, where any row has one. TRL leaves the column alone; its trainers have no weights. */
export const weightShape = (
  turns: Iterable<{ readonly weight: number | null }>,
): Readonly<Record<string, ValueShape>> => {
  for (const { weight } of turns) if (weight !== null) return { weight: 'number' };
  return {};
};

/** Which step a row is; trainers leave these columns alone. */
export const ID_SHAPES = { episode_id: 'text', step_id: 'text' } as const;
