/**
 * Anthropic messages (anthropic 2.14.0, types/message_param.py and tool_param.py): whole conversations with content blocks, the system
 * prompt apart, and results of tools as the user's. A block of thinking needs the signature that the API gave it, so thoughts are not held.
 */
import { conversationsOf, countUnlearnt } from './conversations.ts';
import type { Counter } from './counter.ts';
import { type Layout, LEARNS_ALL } from './layout.ts';
import { argumentsOf, type Message } from './message.ts';
import { chatsOf } from './turn.ts';

type Block = Readonly<Record<string, unknown>>;
type AnthropicTurn = { readonly role: 'user' | 'assistant'; readonly content: Block[] };

export const anthropic: Layout = {
  name: 'anthropic',
  about: 'Anthropic messages: system, messages with content blocks, and tools with input_schema',
  refuses: LEARNS_ALL,
  holds: new Set(['tool calls', 'ids of tool calls', 'tool definitions']),
  files: (splits, { leftOut, notHeld }) =>
    splits.map(({ split, turns }) => {
      const rows = conversationsOf(chatsOf(turns, leftOut)).flatMap((talk) => {
        const why = unfit(talk.messages);
        if (why !== null) {
          leftOut.add(why, talk.learnt.length);
          return [];
        }
        countUnlearnt([talk], notHeld);
        const system = talk.messages.flatMap(({ role, text }) => (role === 'system' && text ? [text] : []));
        return [
          {
            ...(system.length === 0 ? {} : { system: system.join('\n\n') }),
            messages: turnsIn(talk.messages),
            ...(talk.last.tools === null ? {} : { tools: talk.last.tools.map((tool) => toolOf(tool, notHeld)) }),
          },
        ];
      });
      return { name: `${split}.jsonl`, kind: 'lines', split, rows };
    }),
};

/** Why the API would refuse a conversation. */
function unfit(messages: readonly Message[]): string | null {
  const conversation = messages.filter(({ role }) => role !== 'system');
  if (conversation[0]?.role === 'assistant') return 'the first message is the assistant’s';
  if (conversation.some(({ calls }) => calls.some((call) => argumentsOf(call) === null)))
    return 'the arguments of a call are no JSON object';
  if (conversation.some(({ role, callId }) => role === 'tool' && callId === null))
    return 'a result of a tool names no call';
  return messages.some(({ role }, i) => role === 'system' && messages.slice(0, i).some((one) => one.role !== 'system'))
    ? 'a system message is not the first'
    : null;
}

/** Messages of one side that follow each other are one. */
function turnsIn(messages: readonly Message[]): AnthropicTurn[] {
  const turns: AnthropicTurn[] = [];
  for (const message of messages) {
    if (message.role === 'system') continue;
    const role = message.role === 'assistant' ? 'assistant' : 'user';
    const before = turns.at(-1);
    if (before?.role === role) before.content.push(...blocksOf(message));
    else turns.push({ role, content: [...blocksOf(message)] });
  }
  return turns;
}

function blocksOf({ role, text, callId, calls }: Message): readonly Block[] {
  if (role === 'tool') return [{ type: 'tool_result', tool_use_id: callId, content: text ?? '' }];
  const textBlocks = text ? [{ type: 'text', text }] : [];
  const asked = calls.map((call, i) => ({
    type: 'tool_use',
    id: call.id ?? `call_${i}`,
    name: call.name,
    input: argumentsOf(call),
  }));
  return [...textBlocks, ...asked];
}

function toolOf(tool: Readonly<Record<string, unknown>>, notHeld: Counter): Block {
  const { name, description, parameters, ...rest } = (tool.function ?? tool) as Readonly<Record<string, unknown>>;
  if ('input_schema' in rest) return { name, description, ...rest };
  if (Object.keys(rest).length > 0) notHeld.add(`members of tool definitions: ${Object.keys(rest).sort().join(', ')}`);
  return {
    name,
    ...(description === undefined ? {} : { description }),
    input_schema: parameters ?? { type: 'object' },
  };
}
