/** Entries of a Pi session: what they say, and as what a later call is shown them. */
import type { Message, Part } from '../../events/events.ts';
import { asText, given, isRecord, type JsonObject } from '../../events/json.ts';
import type { NativeRefusal } from '../kit/format.ts';
import { badIdentifier, refusal } from '../kit/native.ts';

/** An entry that passed `badEntry`, with its place in the file and the entry it hangs on. */
export type Entry = {
  readonly seq: number;
  readonly fields: JsonObject;
  readonly id: string;
  readonly parent: string | null;
};

const ROLES = [
  'system',
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
  if (role === 'toolResult') return badIdentifier(message.toolCallId, 'message.toolCallId');
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
  return (Array.isArray(content) ? content : content == null ? [] : [content]).map((block: unknown): Part => {
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
export function shownOf(fields: JsonObject): Message | null {
  const { type, summary, content } = fields;
  if (type === 'compaction' || type === 'branch_summary')
    return typeof summary === 'string' ? { role: 'user', content: partsOf(summary) } : null;
  if (type === 'custom_message') return { role: 'user', content: partsOf(content) };
  if (type !== 'message') return null;
  const message = fields.message as JsonObject;
  switch (message.role) {
    // Its sections are patches of the prompt that stands first; a text of its own stands where it is.
    case 'system':
      return textOf(message.content) === '' ? null : { role: 'system', content: partsOf(message.content) };
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

/** The prompt and the tools that system messages declare, one after the other. */
export type Prompt = { readonly text: string; readonly tools: readonly JsonObject[] };

/** The order in which Pi builds its prompt. A stored record keeps no order of keys, so those of extensions follow by name. */
const SECTIONS = ['preamble', 'tools', 'rules', 'docs', 'addendum', 'project_context', 'skills', 'cwd'];
const placeOf = (name: string): string => {
  const place = SECTIONS.indexOf(name);
  return place < 0 ? `9 ${name}` : String(place);
};

/** Sections are patched by name, null removes one; Pi sends them with an empty line between two. */
export function promptOf(messages: readonly JsonObject[]): Prompt {
  const sections = new Map<string, string>();
  const tools = new Map<string, JsonObject>();
  const listed = (value: unknown): JsonObject[] => (Array.isArray(value) ? value.filter(isRecord) : []);
  for (const { sections: patch, toolsAdded, toolsRemoved } of messages) {
    for (const [name, text] of Object.entries(isRecord(patch) ? patch : {})) {
      if (typeof text === 'string') sections.set(name, text);
      else sections.delete(name);
    }
    for (const { name } of listed(toolsRemoved)) tools.delete(asText(name));
    for (const tool of listed(toolsAdded)) tools.set(asText(tool.name), tool);
  }
  const texts = [...sections].sort(([a], [b]) => (placeOf(a) < placeOf(b) ? -1 : 1)).map(([, text]) => text);
  return { text: texts.filter((text) => text !== '').join('\n\n'), tools: [...tools.values()] };
}
