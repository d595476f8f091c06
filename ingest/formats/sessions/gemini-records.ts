/** Records of Gemini CLI: lines of a chat, whole chats, saved histories; and Gemini's contents as messages. */
import type { Message, Part } from '../../events/events.ts';
import { given, isRecord, type JsonObject, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import type { NativeRefusal } from '../kit/format.ts';
import { badIdentifier, refusal } from '../kit/native.ts';

/** The head of a chat; in versions before 0.40 of 2026 the whole chat, with its messages. */
export const isHeader = (line: unknown): line is JsonObject =>
  isRecord(line) && 'sessionId' in line && 'projectHash' in line;
/** A change of the head, or of the whole conversation where it brings messages. */
export const setIn = (line: unknown): JsonObject | null => (isRecord(line) && isRecord(line.$set) ? line.$set : null);
export const isRewind = (line: unknown): line is { readonly $rewindTo: string } =>
  isRecord(line) && typeof line.$rewindTo === 'string';
const TYPES = new Set(['user', 'gemini', 'info', 'error', 'warning']);
export const isMessage = (line: unknown): line is JsonObject =>
  isRecord(line) && TYPES.has(line.type as string) && 'id' in line && 'timestamp' in line && 'content' in line;
export const isContent = (value: unknown): value is { readonly role: string; readonly parts: readonly unknown[] } =>
  isRecord(value) && (value.role === 'user' || value.role === 'model') && Array.isArray(value.parts);

/** A content of the Gemini API, which has nothing beside role and parts; messages of other programs have ids, and name the kind of a part. */
export const isBareContent = (value: unknown): boolean =>
  isContent(value) &&
  Object.keys(value).length === 2 &&
  !value.parts.some((part) => isRecord(part) && ('type' in part || 'kind' in part || 'part_kind' in part));

/** The contents of a saved history: of `/chat save`, or beside a tool call that changes a file. */
export function historyIn(value: unknown): readonly unknown[] | null {
  if (!isRecord(value)) return null;
  const found = [value.clientHistory, value.history].find((one) => Array.isArray(one) && one.some(isContent));
  return (found as readonly unknown[] | undefined) ?? null;
}

export const messagesIn = (value: unknown): readonly unknown[] | null =>
  isRecord(value) && Array.isArray(value.messages) ? value.messages : null;

/** Why a message of a chat cannot be read; null where it can. */
export function badMessage(value: unknown, field: string): NativeRefusal | null {
  const at = (name: string): string => (field === '' ? name : `${field}.${name}`);
  if (!isMessage(value)) return refusal('bad_shape', field, 'a message {id, timestamp, type, content}', value);
  const bad = badIdentifier(value.id, at('id'));
  if (bad) return bad;
  const { toolCalls: calls } = value;
  if (calls === undefined) return null;
  if (!Array.isArray(calls)) return refusal('bad_type', at('toolCalls'), 'a list', calls);
  for (const [i, call] of calls.entries()) {
    const place = at(`toolCalls[${i}]`);
    if (!isRecord(call)) return refusal('bad_type', place, 'an object', call);
    const badCall = badIdentifier(call.id, `${place}.id`) ?? badIdentifier(call.name, `${place}.name`);
    if (badCall) return badCall;
  }
  return null;
}

export type ToolCall = JsonObject & { readonly id: string; readonly name: string };
export const toolCallsOf = ({ toolCalls }: JsonObject): readonly ToolCall[] =>
  Array.isArray(toolCalls) ? (toolCalls as ToolCall[]) : [];

/** Contents are a text, a part, or a list of both. */
const piecesOf = (content: unknown): readonly unknown[] =>
  Array.isArray(content) ? content : content === '' || content == null ? [] : [content];

const functionIn = (piece: unknown, name: string): JsonObject | null =>
  isRecord(piece) && isRecord(piece[name]) ? (piece[name] as JsonObject) : null;
export const responsesIn = (content: unknown): readonly JsonObject[] =>
  piecesOf(content)
    .map((piece) => functionIn(piece, 'functionResponse'))
    .filter((response) => response !== null);

/** Calls that a content holds; those without an id, as in early versions, are named by `place` and their number. */
export const callsIn = (content: unknown, place = ''): ToolCall[] =>
  piecesOf(content)
    .map((piece) => functionIn(piece, 'functionCall'))
    .filter((call) => call !== null)
    .flatMap((call, i) =>
      isIdentifier(call.name)
        ? [{ ...call, name: call.name, id: isIdentifier(call.id) ? call.id : `${place}/${call.name}/${i}` }]
        : [],
    );

/** What a content says beside calls of tools and their results. */
export const wordsOf = (content: unknown): Part[] =>
  piecesOf(content).flatMap((piece): Part[] => {
    if (typeof piece === 'string') return [{ type: 'text', content: piece }];
    if (!isRecord(piece)) return [{ type: 'json', content: piece }];
    if ('functionCall' in piece || 'functionResponse' in piece) return [];
    const { text, thought, inlineData, ...rest } = piece;
    if (typeof text === 'string') return [{ ...rest, type: thought === true ? 'reasoning' : 'text', content: text }];
    if (isRecord(inlineData) && typeof inlineData.data === 'string')
      return [{ ...rest, type: 'blob', content: inlineData.data, ...given('mime_type', inlineData.mimeType) } as Part];
    return [{ ...(without(piece) ?? {}), type: 'json' }];
  });

export const textOf = (content: unknown): string =>
  wordsOf(content)
    .flatMap(({ type, content: text }) => (type === 'text' && typeof text === 'string' ? [text] : []))
    .join('\n');

/** A summary of what the model thought has a subject and a description. */
export const thoughtsOf = ({ thoughts }: JsonObject): Part[] =>
  (Array.isArray(thoughts) ? thoughts : []).filter(isRecord).map(({ subject, description, ...rest }) => ({
    ...rest,
    type: 'reasoning',
    content: [subject, description].filter((text) => typeof text === 'string' && text !== '').join('\n'),
  }));

export const callParts = (calls: readonly ToolCall[]): Part[] =>
  calls.map(({ id, name, args }) => ({ type: 'tool_call', id, name, arguments: args ?? null }) as Part);

/** The tool result as the model sees it: `output` or `error` of the response, else all of it. */
export function outputOf({ response }: JsonObject): string | Part[] {
  const result = isRecord(response) ? (response.output ?? response.error ?? response) : response;
  return typeof result === 'string' ? result : [{ type: 'json', content: result ?? null }];
}

export const isErrorResponse = ({ response }: JsonObject): boolean => isRecord(response) && 'error' in response;

export const resultShown = (response: JsonObject, id: unknown): Message =>
  ({ role: 'tool', content: outputOf(response), tool_call_id: id }) as Message;

/** What the program adds to a conversation in the name of the user. */
export const isAdded = (text: string): boolean => /^\s*<session_context>/.test(text);
