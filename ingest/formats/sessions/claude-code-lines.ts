/** Lines of a Claude Code session, and how they are divided by agent. */
import { asText, isRecord, type JsonObject } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import type { NativeRefusal } from '../kit/format.ts';
import { badIdentifier, refusal } from '../kit/native.ts';

/** A line that passed `badLine`; `seq` is its place in the file. A copied one belongs to another session. */
export type Line = {
  readonly seq: number;
  readonly fields: JsonObject;
  readonly copied?: boolean;
  /** Whether its place orders it though it has a time: not all lines beside it have one. */
  readonly isPlaced?: boolean;
};
/** The agent that the person talks to. */
export const MAIN = 'main';

/** Lines that hold no message of the conversation; those with a `sessionId` are known by it. */
const NOTES = new Set([
  'system',
  'attachment',
  'progress',
  'queue-operation',
  'last-prompt',
  'file-history-snapshot',
  'summary',
  'custom-title',
  'ai-title',
]);

/** The kind of a line of which nothing is read though nobody knows what it says; null for messages and notes. */
export const unknownKind = (line: JsonObject): string | null =>
  isMessage(line) || NOTES.has(line.type as string) ? null : asText(line.type);

const isMessage = ({ type }: JsonObject): boolean => type === 'user' || type === 'assistant';

/** Programs that were made after Claude Code write such lines around messages of other providers, which have `parts`. */
const isSaid = (message: unknown): boolean => isRecord(message) && 'content' in message;

/** Whether a record is a line of a session: `{type: "user" | "assistant", message, uuid, sessionId}`, or a note beside them. */
export function isSessionLine(record: unknown): boolean {
  if (!isRecord(record)) return false;
  if (typeof record.sessionId !== 'string') return record.type === 'file-history-snapshot' && 'snapshot' in record;
  if (isMessage(record)) return isSaid(record.message) && ('uuid' in record || 'parentUuid' in record);
  return NOTES.has(record.type as string) && !('systemPayload' in record);
}

/** Why a line cannot be read; null where it can. */
export function badLine(native: unknown): NativeRefusal | null {
  if (!isRecord(native)) return refusal('bad_type', '', 'an object', native);
  if (typeof native.type !== 'string') return refusal('bad_type', 'type', 'a text', native.type);
  if (!isMessage(native)) return null;
  const bad = badIdentifier(native.sessionId, 'sessionId') ?? badIdentifier(native.uuid, 'uuid');
  if (bad) return bad;
  const { message } = native;
  if (!isRecord(message)) return refusal('bad_type', 'message', 'a message object', message);
  const { content } = message;
  if (typeof content === 'string') return null;
  if (!Array.isArray(content)) return refusal('bad_type', 'message.content', 'a text or a list of blocks', content);
  for (const [i, block] of content.entries()) {
    const place = `message.content[${i}]`;
    if (!isRecord(block) || typeof block.type !== 'string' || block.type === '')
      return refusal('bad_shape', place, 'a block with a type', block);
    const called = /(^|_)tool_use$/.test(block.type);
    const badId = called
      ? (badIdentifier(block.id, `${place}.id`) ?? badIdentifier(block.name, `${place}.name`))
      : /tool_result$/.test(block.type)
        ? badIdentifier(block.tool_use_id, `${place}.tool_use_id`)
        : null;
    if (badId) return badId;
  }
  return null;
}

/** What a line is known by: itself, and its answer with its time, since some model servers number their answers anew in each session. */
export function idsOf(line: JsonObject): string[] {
  const response = responseOf(line);
  return [line.uuid, isIdentifier(response) ? `${response} ${asText(line.timestamp)}` : null].filter(isIdentifier);
}

const responseOf = ({ type, message }: JsonObject): unknown =>
  type === 'assistant' && isRecord(message) && message.model !== SYNTHETIC ? message.id : undefined;

/** The model of what the program wrote in the place of an answer. */
export const SYNTHETIC = '<synthetic>';

/** Whether a line says that it was copied from another session. */
const saysCopied = ({ forkedFrom }: JsonObject): boolean => isRecord(forkedFrom);

/** The ids of lines that say of themselves that they were copied: some versions write such a line a second time without a word. */
export const copiesIn = (lines: readonly unknown[]): ReadonlySet<string> =>
  new Set(lines.flatMap((line) => (isRecord(line) && saysCopied(line) ? idsOf(line) : [])));

/** The ids of all other lines, and of the answers among them. */
export function originalsIn(lines: readonly unknown[]): { readonly ids: string[]; readonly responses: string[] } {
  const copies = copiesIn(lines);
  const own = lines.filter((line): line is JsonObject => isRecord(line) && !idsOf(line).some((id) => copies.has(id)));
  const responses = new Set(own.map(responseOf).filter(isIdentifier));
  return { ids: [...new Set(own.flatMap(idsOf))], responses: [...responses] };
}

export const blocksOf = ({ message }: JsonObject): readonly JsonObject[] => {
  const content = isRecord(message) ? message.content : undefined;
  if (typeof content === 'string') return [{ type: 'text', text: content }];
  return Array.isArray(content) ? (content as JsonObject[]) : [];
};

/** The text of a line that a person wrote; null for results of tools, for what the program added, and for its own commands. */
export function promptOf(fields: JsonObject): string | null {
  if (fields.type !== 'user' || fields.isMeta === true || fields.isCompactSummary === true) return null;
  const blocks = blocksOf(fields);
  if (blocks.some(({ type }) => type === 'tool_result')) return null;
  const text = blocks.flatMap((block) => (typeof block.text === 'string' ? [block.text] : [])).join('\n');
  return text.trim() === '' || /^\s*<(command-|local-command|bash-|system-reminder)/.test(text) ? null : text;
}

/**
 * The agent of each line. Since version 2.0.42 or so a line of a sub-agent names it (`agentId`); before, its lines stood in the file
 * of its parent, marked `isSidechain`, and an agent is what hangs on one first line.
 */
export function agentsOf(lines: readonly Line[]): (line: Line) => string {
  const roots = new Map<unknown, string>();
  for (const { fields } of lines) {
    if (fields.isSidechain !== true || isIdentifier(fields.agentId) || !isIdentifier(fields.uuid)) continue;
    roots.set(fields.uuid, roots.get(fields.parentUuid) ?? fields.uuid);
  }
  return ({ fields }) =>
    isIdentifier(fields.agentId)
      ? fields.agentId
      : fields.isSidechain === true
        ? (roots.get(fields.uuid) ?? MAIN)
        : MAIN;
}
