/** Entries of a Pi session: what they say, and as what a later call is shown them. */
import type { Message, Part } from '../events.ts';
import { asText, isRecord } from '../json.ts';
import type { NativeRefusal } from './format.ts';
import { badIdentifier, given, refusal } from './native.ts';

export type Fields = Readonly<Record<string, unknown>>;
/** An entry that passed `badEntry`, with its place in the file and the entry it hangs on. */
export type Entry = {
  readonly seq: number;
  readonly fields: Fields;
  readonly id: string;
  readonly parent: string | null;
};

const ROLES = [
  'user',
  'assistant',
  'toolResult',
  'bashExecution',
  'custom',
  'branchSummary',
  'compactionSummary',
  'hookMessage',
];

/** Why an entry cannot be read; null where it can. Types that are not known pass. */
export function badEntry(native: unknown): NativeRefusal | null {
  if (!isRecord(native)) return refusal('bad_type', '', 'an object', native);
  if (typeof native.type !== 'string') return refusal('bad_type', 'type', 'a text', native.type);
  if (native.id !== undefined) {
    const bad = badIdentifier(native.id, 'id');
    if (bad) return bad;
  }
  if (native.type !== 'message') return null;
  const { message } = native;
  if (!isRecord(message)) return refusal('bad_type', 'message', 'a message object', message);
  const { role, content } = message;
  if (!ROLES.includes(role as string)) return refusal('bad_type', 'message.role', `one of ${ROLES.join(', ')}`, role);
  if (role === 'toolResult') {
    const bad = badIdentifier(message.toolCallId, 'message.toolCallId');
    if (bad) return bad;
  }
  if (content === undefined || typeof content === 'string') return null;
  if (!Array.isArray(content)) return refusal('bad_type', 'message.content', 'a text or a list of blocks', content);
  for (const [i, block] of content.entries()) {
    const place = `message.content[${i}]`;
    if (!isRecord(block) || typeof block.type !== 'string' || block.type === '')
      return refusal('bad_shape', place, 'a block with a type', block);
    if (block.type !== 'toolCall') continue;
    const bad = badIdentifier(block.id, `${place}.id`) ?? badIdentifier(block.name, `${place}.name`);
    if (bad) return bad;
  }
  return null;
}

/** A content as parts: a text is one part. */
export function partsOf(content: unknown): Part[] {
  if (typeof content === 'string') return [{ type: 'text', content }];
  return (Array.isArray(content) ? content : []).map((block: unknown): Part => {
    if (!isRecord(block)) return { type: 'json', content: block };
    const { type, text, thinking, ...rest } = block;
    if (type === 'text') return { ...rest, type, content: text };
    if (type === 'thinking') return { ...rest, type: 'reasoning', content: thinking };
    if (type === 'toolCall') return { ...rest, type: 'tool_call' };
    if (type === 'image') {
      const { data, mimeType, ...more } = rest;
      return { ...more, type: 'blob', modality: 'image', content: data, ...given('mime_type', mimeType) } as Part;
    }
    return { ...block, type: typeof type === 'string' && type !== '' ? type : 'json' };
  });
}

export const textOf = (content: unknown): string =>
  partsOf(content)
    .flatMap((part) => (part.type === 'text' && typeof part.content === 'string' ? [part.content] : []))
    .join('\n');

/** An entry as a later call is shown it; null for one that is no part of the context. Pi frames summaries and commands in words of its own. */
export function shownOf(fields: Fields): Message | null {
  const { type, summary, content } = fields;
  if (type === 'compaction' || type === 'branch_summary')
    return typeof summary === 'string' ? { role: 'user', content: partsOf(summary) } : null;
  if (type === 'custom_message') return { role: 'user', content: partsOf(content) };
  if (type !== 'message') return null;
  const message = fields.message as Fields;
  switch (message.role) {
    case 'toolResult':
      return {
        role: 'tool',
        content: partsOf(message.content),
        tool_call_id: message.toolCallId,
        ...(message.isError === true ? { is_error: true } : {}),
      } as Message;
    case 'bashExecution':
      return message.excludeFromContext === true
        ? null
        : { role: 'user', content: partsOf(`$ ${asText(message.command)}\n${asText(message.output)}`) };
    case 'branchSummary':
    case 'compactionSummary':
      return typeof message.summary === 'string' ? { role: 'user', content: partsOf(message.summary) } : null;
  }
  return { role: message.role === 'assistant' ? 'assistant' : 'user', content: partsOf(message.content) };
}
