/** The tools of a request and the calls of them, in the shape of the OpenAI chat interface. Pure. */
import type { Draft } from '../../ingest/events/events.ts';
import { hashId, isRecord } from '../../ingest/events/json.ts';
import { isIdentifier } from '../../ingest/events/text.ts';
import type { ChatMessage } from '../../ingest/formats/kit/chat-message.ts';
import { type Call, prefixIds, resultDrafts, toolDrafts } from '../../ingest/formats/kit/chat-tools.ts';
import type { Emitter } from '../../ingest/formats/kit/native.ts';
import type { Choice } from '../../trainer/sample/infer-wire.ts';
import { flag, refuse } from './sampling.ts';

/** A function that a model may call: `parameters` is a JSON Schema. */
export type Tool = {
  readonly type: 'function';
  readonly function: Readonly<Record<string, unknown>> & { readonly name: string };
};

/** The tools of a chat request that a policy is offered; null where none are. Throws `usage` for tools of other types. */
export function readTools(fields: Readonly<Record<string, unknown>>): readonly Tool[] | null {
  const { tools, tool_choice: choice } = fields;
  if (tools == null) return null;
  if (!Array.isArray(tools)) throw refuse('tools', 'a list', tools);
  for (const [i, tool] of tools.entries()) {
    if (!isRecord(tool) || tool.type !== 'function' || !isRecord(tool.function) || !isIdentifier(tool.function.name))
      throw refuse(
        `tools[${i}]`,
        '{"type":"function","function":{"name":…}}',
        tool,
        'A policy supports only functions.',
      );
  }
  return choice === 'none' || tools.length === 0 ? null : (tools as Tool[]);
}

/** Whether `parallel_tool_calls` of a request with tools says that a response has one call at most, after which it ends. */
export function readOneCall(
  { parallel_tool_calls: parallel }: Readonly<Record<string, unknown>>,
  tools: readonly Tool[] | null,
): boolean {
  return parallel != null && !flag('parallel_tool_calls', parallel) && tools !== null;
}

/** The id of a tool call in the response to the client. */
const nativeId = (callId: string, choice: number, index: number): string =>
  `call_${hashId(callId, choice, index).slice(0, 24)}`;

/** A choice as a message of the chat interface. */
export function messageOf({ text, called }: Choice, callId: string, choice: number): ChatMessage {
  if (called === undefined) return { role: 'assistant', content: text };
  return {
    role: 'assistant',
    content: called.content === '' ? null : called.content,
    tool_calls: called.calls.map(({ name, arguments: written }, index) => ({
      id: nativeId(callId, choice, index),
      type: 'function',
      function: { name, arguments: written },
    })),
  };
}

/** The finish reason of a choice in the chat interface: `length` takes precedence over `tool_calls`. */
export const finishOf = ({ finish_reason: reason, called }: Choice): 'stop' | 'length' | 'tool_calls' =>
  reason === 'stop' && called !== undefined ? 'tool_calls' : reason;

/** Tool events of one call: the results in its messages, and the calls in its choices. */
export function toolEvents(
  call: Call,
  messages: readonly ChatMessage[],
  choices: readonly { readonly index: number; readonly message: ChatMessage }[],
  { source, completedAt }: { readonly source: string; readonly completedAt: string },
): Draft[] {
  // Instructions change from call to call; the conversation does not.
  const conversation = messages.filter(({ role }) => role !== 'system' && role !== 'developer');
  const prefixes = prefixIds(call.episode_id, conversation);
  const emitter = toolEmitter(source, call.call_id);
  return [
    ...resultDrafts(emitter, call, conversation, prefixes),
    ...toolDrafts(emitter, call, choices, prefixes.at(-1) as string, completedAt),
  ];
}

/** `state` events, which a later request may repeat, have ids from their content; `event` ids include the id of the call. */
export const toolEmitter = (source: string, callId: string): Emitter => ({
  state: (name, data) => ({ name, source, id: hashId(source, name, data), time: null, data }) as unknown as Draft,
  event: (name, place, data, time = null) =>
    ({ name, source, id: hashId(source, name, callId, ...place), time, data }) as unknown as Draft,
});
