/**
 * Sessions of Qwen Code, `~/.qwen/projects/<folder>/chats/<session>.jsonl`: lines as Claude Code writes them, with messages of the Gemini
 * API. Read from what version 0.15.10 (npm @qwen-code/qwen-code) writes against a scripted model server.
 */
import { asText, given, isRecord, type JsonObject, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { lineFormat } from '../kit/lines.ts';
import { timeOfText } from '../kit/run.ts';
import { convertSessions } from './claude-code.ts';
import type { Line } from './claude-code-lines.ts';
import { isContent } from './gemini-records.ts';

const NAME = 'qwen-code';

const isSessionLine = (record: unknown): record is JsonObject & { readonly sessionId: string } =>
  isRecord(record) &&
  isIdentifier(record.sessionId) &&
  'uuid' in record &&
  (isContent(record.message) || (record.type === 'system' && 'systemPayload' in record));

const sessionsIn = (lines: readonly unknown[]): string[] => [
  ...new Set(lines.filter(isSessionLine).map(({ sessionId }) => sessionId)),
];

export const qwenCode = lineFormat({
  name: NAME,
  summary: 'Sessions of Qwen Code: lines of {uuid, parentUuid, sessionId, type, message: {role, parts}}',
  isLine: isSessionLine,
  joins: {
    names: sessionsIn,
    marks: ({ uuid, parentUuid }) => [[uuid], [parentUuid]],
    timeOf: ({ timestamp }) => timeOfText(timestamp),
  },
  convert: (list, record) =>
    convertSessions(NAME, list, record, linesOf, (_, lines) => ({
      model: lines.map(({ fields }) => (fields.message as JsonObject | undefined)?.model).find(isIdentifier),
    })),
});

/** A line as Claude Code writes it. What a compression leaves of the conversation follows its line. */
function linesOf(native: unknown, seq: number): Line[] {
  if (!isRecord(native)) return [{ seq, fields: native as never }];
  const { message, model, usageMetadata: usage, toolCallResult: _, systemPayload: payload, ...line } = native;
  if (native.type === 'system') {
    const isCompression = native.subtype === 'chat_compression';
    const history = isRecord(payload) && Array.isArray(payload.compressedHistory) ? payload.compressedHistory : [];
    const left = isCompression ? history.filter(isContent) : [];
    const note = { ...line, ...(isCompression ? { subtype: 'compact_boundary' } : { type: 'note' }) };
    return [
      { seq, fields: note },
      ...left.map(({ role, parts }, i) => {
        const type = role === 'model' ? 'assistant' : 'user';
        const uuid = `${asText(native.uuid)}/${i}`;
        return {
          seq,
          copied: true,
          fields: { ...line, uuid, type, message: { role: type, content: parts.map(blockOf) } },
        };
      }),
    ];
  }
  const type = native.type === 'assistant' ? 'assistant' : 'user';
  if (!isContent(message)) return [{ seq, fields: { ...line, type, message } }];
  const content = message.parts.map(blockOf);
  const result = native.type === 'tool_result' ? native.toolCallResult : undefined;
  const interrupted = isRecord(result) && result.status === 'cancelled';
  return [
    {
      seq,
      fields: {
        ...line,
        type,
        message: { role: type, content, ...given('model', model), ...given('usage', usage) },
        ...(interrupted ? { toolUseResult: { interrupted } } : {}),
      },
    },
  ];
}

/** A part of the Gemini API as a block of the Messages API. */
function blockOf(part: unknown): JsonObject {
  if (!isRecord(part)) return { type: 'json', content: part };
  const { text, thought, functionCall: call, functionResponse: answer } = part;
  if (isRecord(call)) return { type: 'tool_use', id: call.id, name: call.name, input: call.args ?? {} };
  if (isRecord(answer)) {
    const { output, error } = isRecord(answer.response) ? answer.response : {};
    const content = output ?? error ?? answer.response;
    return { type: 'tool_result', tool_use_id: answer.id, content, ...(error === undefined ? {} : { is_error: true }) };
  }
  if (typeof text !== 'string') return { ...part, type: 'json' };
  return thought === true
    ? { type: 'thinking', thinking: text }
    : { ...without(part, 'text', 'thought'), type: 'text', text };
}
