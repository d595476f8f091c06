/** Messages of AgentScope and the blocks they are made of. */
import type { Part } from '../../events/events.ts';
import { isRecord, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { readArguments } from '../kit/chat-message.ts';
import type { NativeRefusal } from '../kit/format.ts';
import { badIdentifier, refusal } from '../kit/native.ts';

export type Block = Readonly<Record<string, unknown>> & { readonly type: string };

const ROLES = ['user', 'assistant', 'system'];

/** Why a message cannot be read; null where it can. */
export function badMessage(native: unknown): NativeRefusal | null {
  if (!isRecord(native)) return refusal('bad_type', '', 'a message object', native);
  const { role, content } = native;
  if (!ROLES.includes(role as string)) return refusal('bad_type', 'role', `one of ${ROLES.join(', ')}`, role);
  const bad = badIdentifier(native.name, 'name');
  if (bad || typeof content === 'string') return bad;
  if (content === null && outputTokensOf(native) > 0) return null;
  if (!Array.isArray(content)) return refusal('bad_type', 'content', 'a text or a list of blocks', content);
  for (const [i, block] of content.entries()) {
    if (!isRecord(block) || typeof block.type !== 'string' || block.type === '') {
      return refusal('bad_shape', `content[${i}]`, 'a block with a type', block);
    }
    const bad =
      CALLS.has(block.type) || block.type === 'tool_result' ? badIdentifier(block.id, `content[${i}].id`) : null;
    const badName = CALLS.has(block.type) ? badIdentifier(block.name, `content[${i}].name`) : null;
    if (bad ?? badName) return bad ?? badName;
  }
  return null;
}

/** Blocks that ask for a tool, of version 1 and of version 2. */
export const CALLS = new Set(['tool_use', 'tool_call']);

export const blocksOf = (content: unknown): readonly Block[] =>
  typeof content === 'string' ? [{ type: 'text', text: content }] : ((content ?? []) as Block[]);

/** Tokens that the model wrote for a message; 0 where the message gives no count. */
export const outputTokensOf = ({ usage }: Readonly<Record<string, unknown>>): number =>
  isRecord(usage) && typeof usage.output_tokens === 'number' ? usage.output_tokens : 0;

export const textOf = (blocks: readonly Block[]): string | undefined => {
  const texts = blocks.flatMap((block) =>
    block.type === 'text' && typeof block.text === 'string' ? [block.text] : [],
  );
  return texts.length === 0 ? undefined : texts.join('\n');
};

export function partOf(block: Block): Part & Record<string, unknown> {
  const { type, text, thinking, id, name, input, ...rest } = block;
  if (type === 'text' && typeof text === 'string') return { ...without(block, 'text'), type, content: text };
  if (type === 'thinking' && typeof thinking === 'string') {
    return { ...without(block, 'thinking'), type: 'reasoning', content: thinking };
  }
  if (!CALLS.has(type)) return block;
  const { arguments: asked, arguments_raw: raw } = readArguments(input);
  return {
    type: 'tool_call',
    id,
    name,
    arguments: asked ?? raw,
    ...(Object.keys(rest).length > 0 ? { native: rest } : {}),
  };
}

export const outputOf = (output: unknown): unknown =>
  Array.isArray(output) && output.every((block) => isRecord(block) && isIdentifier(block.type))
    ? output.map((block) => partOf(block as Block))
    : output;
