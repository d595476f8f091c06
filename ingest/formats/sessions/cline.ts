/**
 * Sessions of Cline's SDK, `<session>.messages.json`, and the conversations that Cline and Roo Code keep of a task,
 * `api_conversation_history.json`: messages of Anthropic's Messages API with times, models and tokens beside them. Read from cline/cline,
 * sdk/packages/shared/src/llms/messages.ts, commit 21cb8d2, and RooCodeInc/Roo-Code, src/core/task-persistence/apiMessages.ts, commit
 * cb83656.
 */
import { canonicalJson, given, hashId, isRecord, type JsonObject, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import type { Conversion, NativeRecord, NativeRefusal } from '../kit/format.ts';
import { lineFormat } from '../kit/lines.ts';
import { refusal, refused } from '../kit/native.ts';
import { taskOf, timeOfMs } from '../kit/run.ts';
import { Trace } from '../kit/trace.ts';
import { badLine, type Line, promptOf } from './claude-code-lines.ts';
import { addThread } from './claude-code-thread.ts';

const NAME = 'cline';
const MAIN = 'main';

export const isSession = (record: unknown): record is JsonObject =>
  isRecord(record) &&
  Array.isArray(record.messages) &&
  'sessionId' in record &&
  'agent' in record &&
  'updated_at' in record;

/** A message of a task, which has its time beside it. */
const isTaskMessage = (record: unknown): record is JsonObject =>
  isRecord(record) &&
  (record.role === 'user' || record.role === 'assistant') &&
  'content' in record &&
  typeof record.ts === 'number';

/** What the window of a task shows, `ui_messages.json`: the conversation in words for people, of which the other file has all. */
const isShown = (record: unknown): boolean =>
  isRecord(record) && (record.type === 'say' || record.type === 'ask') && typeof record.ts === 'number';

export const cline = lineFormat({
  name: NAME,
  summary: 'Sessions of Cline {sessionId, agent, messages}; api_conversation_history.json of Cline and Roo Code',
  isLine: (line, shape) => (shape === 'array' ? isTaskMessage(line) || isShown(line) : isSession(line)),
  gathers: ({ shape }) => (shape === 'array' ? 'file' : null),
  joins: {
    names: (messages) => (isBegun(messages) ? [nameOf(messages)] : []),
    episodes: (messages) => [nameOf(messages)],
    // Messages have neither ids nor their task: a conversation grows, and no later part of it names it.
    timeOf: ({ ts }) => timeOfMs(ts),
    needsName: false,
  },
  convert,
});

const nameOf = (messages: readonly unknown[]): string => hashId(NAME, canonicalJson(messages[0] ?? null));

/** Whether these messages begin with what a person asks. */
function isBegun([first]: readonly unknown[]): boolean {
  const line = lineOf(first, 0, NAME);
  return badLine(line) === null && promptOf(line as JsonObject) !== null;
}

function convert(list: readonly unknown[], record: NativeRecord): Conversion {
  const { value } = record;
  if (Array.isArray(value) && list.length > 0 && list.every(isShown))
    return { drafts: [], refusals: [], raw: null, unread: ['ui_messages.json'] };
  const session: JsonObject = isSession(value) ? value : { messages: list };
  const messages = session.messages as readonly unknown[];
  const named = isIdentifier(session.sessionId) ? session.sessionId : null;
  const episodeId = named ?? nameOf(messages);
  const isCut = named === null && !isBegun(messages);
  const refusals: NativeRefusal[] = [];
  const lines = messages.flatMap((message, seq): Line[] => {
    const fields = lineOf(message, seq, episodeId);
    const bad = badLine(fields);
    if (bad)
      refusals.push({
        ...bad,
        field: `messages[${seq}].${bad.field.replace('message.', '')}`,
        ...(named ? {} : { at: seq }),
      });
    return bad ? [] : [{ seq, fields: fields as JsonObject }];
  });
  if (lines.length === 0)
    return refused(...(refusals.length > 0 ? refusals : [refusal('bad_shape', 'messages', 'a message', messages)]));
  const answers = lines.filter(({ fields }) => fields.type === 'assistant');
  const models = answers.map(({ fields }) => (fields.message as JsonObject).model);
  const system = [session.system_prompt].find((text) => typeof text === 'string' && text !== '') as string | undefined;
  const trace = Trace.revised(NAME, record, episodeId);
  addThread(trace, lines, MAIN, system);
  const run = {
    // What a later part of a conversation asks first is not what it began with.
    task: taskOf(NAME, isCut ? undefined : lines.map(({ fields }) => promptOf(fields)).find((text) => text !== null)),
    incomplete: answers.length === 0 || isCut,
    started: {
      session_id: episodeId,
      unmapped: without(session, 'messages', 'sessionId', 'agent', 'system_prompt', 'updated_at'),
    },
    agents: [
      {
        ...{ agent_id: MAIN, name: isIdentifier(session.agent) ? session.agent : MAIN },
        model: models.find((one) => typeof one === 'string'),
        system_instructions: system,
      },
    ],
  };
  return trace.finish(run, refusals);
}

/** What ended an answer early: Cline and Roo Code write it behind the text that had come. */
function interruptionIn(content: unknown): string | undefined {
  const last: unknown = Array.isArray(content)
    ? content.findLast((one) => isRecord(one) && one.type === 'text')
    : content;
  const text = isRecord(last) ? last.text : last;
  const found = typeof text === 'string' ? /\[Response interrupted by (.+)\]\s*$/.exec(text) : null;
  return found ? (/API Error/i.test(found[1]!) ? 'error' : 'aborted') : undefined;
}

/** What a tool of Cline says of each thing it was asked for, which is no block of a message. */
const isReport = (one: unknown): one is JsonObject =>
  isRecord(one) && typeof one.query === 'string' && typeof one.success === 'boolean' && !('type' in one);

/** A result that is a list of reports has a part for each, and has failed where all of them have. */
function withReports(block: unknown): unknown {
  if (!isRecord(block) || block.type !== 'tool_result') return block;
  const { content } = block;
  if (!Array.isArray(content) || content.length === 0 || !content.every(isReport)) return block;
  const failed = content.every(({ success }) => success === false);
  return {
    ...block,
    content: content.map((report) => ({ type: 'json', content: report })),
    ...(failed ? { is_error: true } : {}),
  };
}

/** A message as a line of a session: Cline counts what came from a cache among the input, as no line does. */
function lineOf(message: unknown, seq: number, sessionId: string): unknown {
  if (!isRecord(message)) return { type: 'user', uuid: `m${seq}`, sessionId, message };
  const { role, content, id, ts, modelInfo, metrics } = message;
  const number = (name: string): number =>
    isRecord(metrics) && typeof metrics[name] === 'number' ? (metrics[name] as number) : 0;
  const [read, written] = [number('cacheReadTokens'), number('cacheWriteTokens')];
  const usage =
    isRecord(metrics) && typeof metrics.inputTokens === 'number'
      ? {
          input_tokens: metrics.inputTokens - read - written,
          cache_read_input_tokens: read,
          cache_creation_input_tokens: written,
          output_tokens: metrics.outputTokens,
          cost: metrics.cost,
        }
      : undefined;
  return {
    type: role === 'assistant' ? 'assistant' : 'user',
    uuid: isIdentifier(id) ? id : `m${seq}`,
    parentUuid: null,
    sessionId,
    timestamp: timeOfMs(ts),
    message: {
      role,
      content: Array.isArray(content) ? content.map(withReports) : content,
      ...given('stop_reason', role === 'assistant' ? interruptionIn(content) : undefined),
      ...(isRecord(modelInfo) && typeof modelInfo.id === 'string' ? { model: modelInfo.id } : {}),
      ...(usage === undefined ? {} : { usage }),
    },
  };
}
