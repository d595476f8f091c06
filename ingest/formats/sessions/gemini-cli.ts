/**
 * Chats of Gemini CLI, `~/.gemini/tmp/<project>/chats/session-<time>-<id>.jsonl`, and of its sub-agents, `chats/<session>/<id>.jsonl`: a
 * head, then a line for each message and for each change of one. Before 2026 a chat is one document with all messages. Read from what
 * version 0.61.0 (npm @google/gemini-cli) writes against a scripted model server, and from google-gemini/gemini-cli,
 * packages/core/src/services/chatRecordingService.ts, core/logger.ts and utils/checkpointUtils.ts (commit 5411f11), which also define
 * saved histories: `checkpoint-<tag>.json` of `/chat save`, and those that stand beside a tool call.
 */
import { isRecord, type JsonObject, without } from '../../events/json.ts';
import { writtenJson } from '../../events/spelling.ts';
import { isIdentifier } from '../../events/text.ts';
import type { Conversion, NativeRecord, NativeRefusal } from '../kit/format.ts';
import { lineFormat } from '../kit/lines.ts';
import { badIdentifier, recordId, refusal, refused } from '../kit/native.ts';
import { taskOf, timeOfText } from '../kit/run.ts';
import { Trace } from '../kit/trace.ts';
import {
  callsIn,
  historyIn,
  isAdded,
  isBareContent,
  isContent,
  isHeader,
  isMessage,
  isRewind,
  responsesIn,
  setIn,
  type ToolCall,
  textOf,
  toolCallsOf,
} from './gemini-records.ts';
import { addChat, endOf, readChat } from './gemini-thread.ts';

const NAME = 'gemini-cli';
/** The agent that the person talks to. */
const MAIN = 'main';

export const geminiCli = lineFormat({
  name: NAME,
  summary: 'Gemini CLI chats: {sessionId, projectHash}, then {id, type: user | gemini, content} …; saved histories',
  isLine: (one) =>
    [isHeader, isMessage, isRewind, isBareContent, isSet].some((is) => is(one)) ||
    historyIn(one)?.some(isBareContent) === true,
  joins: { names: namesOf, marks, timeOf: lineTime },
  convert,
});

const isSet = (line: unknown): boolean => {
  const set = setIn(line);
  return set !== null && ('lastUpdated' in set || 'sessionId' in set || 'summary' in set);
};

function namesOf(lines: readonly unknown[]): string[] {
  const named = lines.map((line) => (isHeader(line) ? line.sessionId : setIn(line)?.sessionId));
  return [...new Set(named.filter(isIdentifier))];
}

function marks(line: JsonObject): readonly [unknown[], unknown[]] {
  if (isRewind(line)) return [[], [line.$rewindTo]];
  const list = setIn(line)?.messages;
  const messages = isMessage(line) ? [line] : Array.isArray(list) ? list.filter(isRecord) : [];
  const calls = messages.flatMap((one) => [...toolCallsOf(one), ...callsIn(one.content)]);
  return [
    isMessage(line) ? [line.id, ...calls.map(({ id }) => id)] : [],
    messages.flatMap(({ content }) => responsesIn(content).map(({ id }) => id)),
  ];
}

/** A message is written again when its tools have ended. */
function lineTime(line: unknown): string | null {
  if (isMessage(line)) return timeOfText(endOf(line));
  return timeOfText(isHeader(line) ? line.startTime : setIn(line)?.lastUpdated);
}

const HEADLESS =
  'a line {sessionId, projectHash}, with which a chat begins; of one that was cut, import all parts in one command';

const UNSAID = 'at least one message of a chat; of one that was cut, import all parts in one command';

function convert(list: readonly unknown[], record: NativeRecord): Conversion {
  const [only] = list;
  const history = historyIn(only) ?? (list.some(isContent) && list.every((one) => !isHeader(one)) ? list : null);
  if (history !== null) return historyConverted(record, history);
  const header = list.find(isHeader);
  const badHeader = header ? badIdentifier(header.sessionId, 'sessionId') : refusal('bad_shape', '', HEADLESS, list);
  if (badHeader) return refused(badHeader);
  const sets = list.map(setIn).filter((set) => set !== null);
  const head: JsonObject = {};
  for (const part of [...list.filter(isHeader).toReversed(), ...sets]) Object.assign(head, part);
  return chatConverted(header!.sessionId as string, head, list, record);
}

/** A saved history has neither ids nor times: its contents are messages by their place. */
function historyConverted(record: NativeRecord, history: readonly unknown[]): Conversion {
  const bad: NativeRefusal[] = [];
  const messages: JsonObject[] = [];
  let open: readonly ToolCall[] = [];
  for (const [i, content] of history.entries()) {
    if (!isContent(content)) {
      bad.push(refusal('bad_shape', `history[${i}]`, 'a content {role: user | model, parts}', content));
      continue;
    }
    const about = { id: `m${i}`, timestamp: null };
    if (content.role === 'model') {
      open = callsIn(content.parts, `m${i}`);
      messages.push({ ...about, type: 'gemini', content: content.parts, model: null, tokens: {}, toolCalls: open });
      continue;
    }
    // Results without an id answer the calls before them in their order.
    const results = responsesIn(content.parts).map((response, at) => ({ id: open[at]?.id, ...response }));
    const asked = messages.at(-1);
    if (asked?.type === 'gemini')
      messages[messages.length - 1] = {
        ...asked,
        toolCalls: open.map((call) => ({
          ...call,
          result: results.filter(({ id }) => id === call.id).map((functionResponse) => ({ functionResponse })),
        })),
      };
    messages.push({ ...about, type: 'user', content: withoutResults(content.parts) });
  }
  const converted = chatConverted(recordId(NAME, record), {}, [{ messages }], record);
  return { ...converted, refusals: [...bad, ...converted.refusals] };
}

const withoutResults = (parts: readonly unknown[]): readonly unknown[] =>
  parts.filter((part) => !isRecord(part) || !('functionResponse' in part));

function chatConverted(
  episodeId: string,
  head: JsonObject,
  lines: readonly unknown[],
  record: NativeRecord,
): Conversion {
  const chat = readChat(lines);
  if (chat.messages.length + chat.answers.length === 0)
    return refused(...chat.refusals, refusal('bad_shape', '', UNSAID, lines));
  const agentId = head.kind === 'subagent' ? episodeId : MAIN;
  const asked = chat.messages.find(({ fields }) => fields.type === 'user' && !isAdded(textOf(fields.content)));
  const last = chat.answers.at(-1);
  const model = last?.last.fields.model;
  const { projectHash: project, kind, summary, directories } = head;
  const trace = Trace.revised(NAME, { ...record, canonical: writtenJson(record.value) }, episodeId);
  addChat(trace, chat, agentId, agentId === MAIN ? 'user' : MAIN);
  const run = {
    task: taskOf(NAME, asked && textOf(asked.fields.content)),
    started: {
      session_id: episodeId,
      tags: without({ project, kind, summary, directories }),
    },
    startedAt: timeOfText(head.startTime),
    agents: [{ agent_id: agentId, model: typeof model === 'string' ? model : undefined }],
    finished: { outcome: 'unknown', answer: (last && textOf(last.first.fields.content)) || undefined } as const,
    finishedAt: timeOfText(last && endOf(last.last.fields)),
  };
  return trace.finish(run, chat.refusals);
}
