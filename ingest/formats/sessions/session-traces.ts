/**
 * Sessions in the format that Hugging Face shows for any harness (hub-docs, docs/hub/session-traces-format.md, July 2026): a header
 * `{type: "session", harness, id}`, then `{type: "message", message}`. llama.cpp's web page exports its conversations so (harness
 * `llama.app`): its messages have ids and parents, which form a tree, times, models and counts of tokens. Read from both descriptions.
 */
import type { Draft, Message } from '../../events/events.ts';
import { given, isRecord, type JsonObject, without } from '../../events/json.ts';
import { parseWritten, writtenJson } from '../../events/spelling.ts';
import { isIdentifier } from '../../events/text.ts';
import { badMessage, type ChatMessage, textIn, toMessage, toolCallsOf } from '../kit/chat-message.ts';
import { APPARENT_ERROR, hasError } from '../kit/conversation.ts';
import { finishReasonIn } from '../kit/finish-reason.ts';
import type { Conversion, NativeRecord, NativeRefusal } from '../kit/format.ts';
import { lineFormat } from '../kit/lines.ts';
import { badIdentifier, refusal, refused } from '../kit/native.ts';
import { chatCall } from '../kit/rollout-calls.ts';
import { taskOf, timeOfMs } from '../kit/run.ts';
import { Trace } from '../kit/trace.ts';
import { usageOf } from '../kit/usage.ts';

const NAME = 'session-traces';
/** The agent that the person talks to. */
const MAIN = 'main';

type SessionMessage = {
  readonly seq: number;
  readonly id: string;
  /** Undefined where messages name none: each follows the one before it. */
  readonly parent: string | null | undefined;
  readonly native: JsonObject;
  readonly chat: ChatMessage;
};

/** A session of Pi may name its harness too; its header has a version. */
const isHeader = (line: unknown): line is JsonObject =>
  isRecord(line) && line.type === 'session' && 'harness' in line && 'id' in line && !('version' in line);
/** Messages of Pi stand in entries with a time. */
const isMessage = (line: unknown): line is JsonObject & { readonly message: unknown } =>
  isRecord(line) && line.type === 'message' && 'message' in line && !('timestamp' in line) && !('parentId' in line);
const messageIn = (line: unknown): JsonObject => (isMessage(line) && isRecord(line.message) ? line.message : {});

export const sessionTraces = lineFormat({
  name: NAME,
  summary: 'Session traces of any harness: {type: "session", harness, id}, then {type: "message", message} …',
  isLine: (line) => isHeader(line) || (isMessage(line) && 'role' in messageIn(line)),
  joins: {
    names: sessionsIn,
    marks: (line) => [[messageIn(line).id], [messageIn(line).parent]],
    timeOf: (line) => timeOfMs(messageIn(line).timestamp),
    // Messages without ids and times could stand anywhere in a session.
    needsName: false,
  },
  convert,
});

function sessionsIn(lines: readonly unknown[]): string[] {
  const named = lines.flatMap((line) => (isHeader(line) ? [line.id] : [messageIn(line).convId]));
  return [...new Set(named.filter(isIdentifier))];
}

const HEAD =
  'a line {type: "session", harness, id} before the messages of a session; import one that was cut as a whole';

function convert(list: readonly unknown[], record: NativeRecord): Conversion {
  const refusals: NativeRefusal[] = [];
  const sessions: { readonly header: JsonObject; readonly lines: [number, unknown][] }[] = [];
  for (const [at, line] of list.entries()) {
    if (isHeader(line)) {
      const bad = badIdentifier(line.id, 'id');
      if (bad) refusals.push({ ...bad, at });
      else sessions.push({ header: line, lines: [] });
    } else if (sessions.length > 0) sessions.at(-1)!.lines.push([at, line]);
    else refusals.push({ ...refusal('bad_shape', '', HEAD, line), at });
  }
  if (sessions.length === 0)
    return refused(...(refusals.length > 0 ? refusals : [refusal('bad_shape', '', HEAD, list)]));
  const original = writtenJson(list);
  return {
    drafts: sessions.flatMap(({ header, lines }) =>
      sessionDrafts(header, lines, { ...record, canonical: original }, refusals),
    ),
    refusals,
    raw: original,
  };
}

function sessionDrafts(
  header: JsonObject,
  lines: readonly (readonly [number, unknown])[],
  record: NativeRecord,
  refusals: NativeRefusal[],
): readonly Draft[] {
  const trace = Trace.revised(NAME, record, header.id as string);
  const before = refusals.length;
  const messages = lines.flatMap(([at, line]): SessionMessage[] => {
    const read = readMessage(line, at);
    if ('code' in read) refusals.push({ ...read, at });
    return 'code' in read ? [] : [read];
  });
  const { harness, name, type, id, ...more } = header;
  const first = messages.find(({ chat }) => chat.role === 'user');
  const answers = messages.filter(({ chat }) => chat.role === 'assistant');
  const ids = new Set(messages.map((one) => one.id));
  const hasGap = messages.slice(1).some(({ parent }) => parent && !ids.has(parent));
  const answer = textIn(answers.at(-1)?.chat.content);
  const model = answers.find(({ native }) => typeof native.model === 'string')?.native.model;
  addMessages(trace, messages);
  return trace.finish({
    task: taskOf(NAME, textIn(first?.chat.content)),
    incomplete: refusals.length > before || answers.length === 0 || hasGap,
    started: {
      session_id: trace.episodeId,
      tags: { harness, ...(typeof name === 'string' ? { name } : {}) },
      unmapped: without(more),
    },
    startedAt: timeOfMs(messages[0]?.native.timestamp),
    agents: [
      {
        agent_id: MAIN,
        ...(isIdentifier(harness) ? { name: harness } : {}),
        model: typeof model === 'string' ? model : undefined,
      },
    ],
    finished: { outcome: 'unknown', answer: answer || undefined },
    finishedAt: timeOfMs(messages.at(-1)?.native.timestamp),
  }).drafts;
}

/** A line as a chat message, or why it is none. */
function readMessage(line: unknown, seq: number): SessionMessage | NativeRefusal {
  if (!isMessage(line)) return refusal('bad_shape', '', 'a line {type: "message", message}', line);
  const native = line.message;
  if (!isRecord(native)) return refusal('bad_type', 'message', 'a message object', native);
  const { role, content, reasoningContent, thinking, toolCallId } = native;
  const calls = callsIn(native.toolCalls);
  const thought = reasoningContent ?? thinking;
  const chat = {
    role,
    content,
    ...(typeof thought === 'string' && thought !== '' ? { reasoning_content: thought } : {}),
    ...(calls.length > 0 ? { tool_calls: calls.map((call, i) => chatCall(call, `m${seq}/${i}`)) } : {}),
    ...(toolCallId === undefined ? {} : { tool_call_id: toolCallId }),
  } as ChatMessage;
  const bad = badMessage(chat, 'message') ?? (role === 'tool' ? badIdentifier(toolCallId, 'message.toolCallId') : null);
  if (bad) return bad;
  const parent = native.parent === null || isIdentifier(native.parent) ? native.parent : undefined;
  return { seq, id: isIdentifier(native.id) ? native.id : `m${seq}`, parent, native, chat };
}

/** The page keeps them as JSON in a text, which its export reads. */
function callsIn(written: unknown): readonly unknown[] {
  const read = typeof written === 'string' && written !== '' ? parseWritten(written) : { value: written };
  return 'value' in read && Array.isArray(read.value) ? read.value : [];
}

function addMessages(trace: Trace, messages: readonly SessionMessage[]): void {
  const byId = new Map(messages.map((one) => [one.id, one]));
  const shown = new Map(messages.map((one) => [one, toMessage(one.chat)]));
  /** Null where the branch begins with a message that is not there; an export may leave out the root. */
  const inputOf = (one: SessionMessage, place: number): Message[] | null => {
    if (one.parent === undefined) return messages.slice(0, place).map((other) => shown.get(other)!);
    const branch: SessionMessage[] = [];
    const seen = new Set<string>();
    let at: SessionMessage | undefined = one;
    while (at.parent && !seen.has(at.id)) {
      seen.add(at.id);
      const before: SessionMessage | undefined = byId.get(at.parent);
      if (!before) return at === messages[0] ? branch.map((other) => shown.get(other)!) : null;
      // The root of a tree says nothing.
      if (before.native.type !== 'root') branch.unshift(before);
      at = before;
    }
    return branch.map((other) => shown.get(other)!);
  };
  for (const [place, one] of messages.entries()) {
    const { id, seq, native, chat } = one;
    const time = timeOfMs(native.timestamp);
    const content = shown.get(one)!.content ?? undefined;
    const unmapped = without({ extra: native.extra });
    if (native.type === 'root') continue;
    if (chat.role === 'assistant') {
      const calls = toolCallsOf(chat);
      const isNothing = !chat.content && calls.length === 0 && chat.reasoning_content === undefined;
      trace.exchange(
        { seq, call_id: id, agent_id: MAIN },
        { input: inputOf(one, place) ?? undefined },
        {
          at: time,
          choices: isNothing ? [] : [{ index: 0, content, finish_reason: finishReasonIn(native) }],
          response_model: typeof native.model === 'string' ? native.model : undefined,
          response_id: isIdentifier(native.completionId) ? native.completionId : undefined,
          usage: billed(native.timings),
          unmapped: without({ timings: native.timings, extra: native.extra }),
        },
        calls,
      );
    } else if (chat.role === 'tool') {
      const nativeId = chat.tool_call_id as string;
      const returned = {
        ...{ seq, tool_call_id: trace.ledger.result(nativeId), status: 'ok' as const, output: chat.content },
        flags: hasError(chat.content) ? [APPARENT_ERROR] : undefined,
        native: { tool_call_id: nativeId },
        unmapped,
      };
      trace.add('tool.returned', [id], returned, time);
    } else {
      const sent = { seq, message_id: id, from: chat.role, to: [MAIN], role: chat.role, content, unmapped };
      trace.add('message.sent', [id], sent, time);
    }
  }
}

/** What llama.cpp read is known where it says what it read anew and what its cache held. */
function billed(timings: unknown): Record<string, unknown> | undefined {
  if (!isRecord(timings)) return undefined;
  const { prompt_n, cache_n, predicted_n } = timings;
  const read = typeof prompt_n === 'number' && typeof cache_n === 'number' ? { prompt_n, cache_n } : {};
  return usageOf(without({ ...read, ...given('predicted_n', predicted_n) }));
}
