/**
 * Sessions of the Pi coding agent, `~/.pi/agent/sessions/<folder>/<time>_<id>.jsonl`: a header, then entries that form a tree. Read
 * from what version 0.73.1 (npm @mariozechner/pi-coding-agent) writes against a scripted model server, and from its
 * docs/session-format.md. Version 1 of the file has no tree: each entry follows the one before it.
 */
import type { Message } from '../../events/events.ts';
import { isRecord, type JsonObject, without } from '../../events/json.ts';
import { writtenJson } from '../../events/spelling.ts';
import { isIdentifier } from '../../events/text.ts';
import { resultFlags } from '../kit/conversation.ts';
import type { Conversion, NativeRecord, NativeRefusal } from '../kit/format.ts';
import { lineFormat, readLines } from '../kit/lines.ts';
import { badIdentifier, refusal, refused } from '../kit/native.ts';
import { taskOf, timeOfMs, timeOfText } from '../kit/run.ts';
import { Trace } from '../kit/trace.ts';
import { usageOf } from '../kit/usage.ts';
import { badEntry, type Entry, partsOf, promptOf, shownOf, textOf } from './pi-entries.ts';

const NAME = 'pi';
/** The agent that the person talks to. */
const MAIN = 'main';

/** Another program that writes the format of Pi says so (`harness`); without a version its lines are session traces. */
const isHeader = (record: unknown): record is JsonObject =>
  isRecord(record) &&
  record.type === 'session' &&
  'id' in record &&
  'cwd' in record &&
  (!('harness' in record) || 'version' in record);

const isEntry = (record: unknown): boolean =>
  isRecord(record) &&
  typeof record.type === 'string' &&
  'timestamp' in record &&
  ((record.type === 'message' && isRecord(record.message) && 'role' in record.message && 'parentId' in record) ||
    (ENTRIES.has(record.type) && 'parentId' in record));

const ENTRIES = new Set([
  'model_change',
  'thinking_level_change',
  'compaction',
  'branch_summary',
  'custom',
  'custom_message',
  'label',
  'session_info',
  'context_edit',
  'usage',
]);

export const pi = lineFormat({
  name: NAME,
  summary:
    'Sessions of the Pi coding agent: {type: "session", id, cwd}, then {type: "message", id, parentId, message} …',
  isLine: (line) => isHeader(line) || isEntry(line),
  joins: {
    names: sessionsIn,
    marks: ({ type, id, parentId }) => (type === 'session' ? [[], []] : [[id], [parentId]]),
    timeOf: ({ type, timestamp }) => (type === 'session' ? null : timeOfText(timestamp)),
  },
  convert,
});

function sessionsIn(lines: readonly unknown[]): string[] {
  const id = lines.find(isHeader)?.id;
  return isIdentifier(id) ? [id] : [];
}

function convert(list: readonly unknown[], record: NativeRecord): Conversion {
  const header = list.find(isHeader);
  const badHeader = header
    ? badIdentifier(header.id, 'id')
    : refusal(
        'bad_shape',
        '',
        'a line {type: "session", id, cwd}, with which a session begins; of one that was cut, import all parts in one command',
        list,
      );
  const refusals: NativeRefusal[] = [];
  const entries: Entry[] = [];
  for (const { seq, fields } of readLines(list, (line) => (line === header ? null : badEntry(line)), refusals)) {
    if (fields === header) continue;
    const before = entries.at(-1)?.id ?? null;
    const parent = fields.parentId === undefined ? before : isIdentifier(fields.parentId) ? fields.parentId : null;
    entries.push({ seq, fields, id: isIdentifier(fields.id) ? fields.id : `e${seq}`, parent });
  }
  if (badHeader) return refused(badHeader, ...refusals);
  const trace = Trace.revised(NAME, { ...record, canonical: writtenJson(list) }, header!.id as string);
  return convertSession(trace, header!, entries, refusals);
}

function convertSession(
  trace: Trace,
  header: JsonObject,
  entries: readonly Entry[],
  refusals: readonly NativeRefusal[],
): Conversion {
  const { cwd, parentSession, version, harness } = header;
  const asked = entries.find(({ fields }) => messageOf(fields)?.role === 'user');
  const last = entries.findLast(({ fields }) => messageOf(fields)?.role === 'assistant');
  const reply = last && messageOf(last.fields);
  const stop = reply?.stopReason;
  const title = entries.findLast(({ fields }) => fields.type === 'session_info')?.fields.name;
  addEntries(trace, entries);
  return trace.finish(
    {
      task: taskOf(NAME, asked && textOf(messageOf(asked.fields)?.content)),
      started: {
        session_id: trace.episodeId,
        tags: without({ cwd, version, harness, parent_session: parentSession, name: title ?? undefined }),
      },
      startedAt: timeOfText(header.timestamp),
      agents: [mainOf(entries)],
      finished: {
        outcome: stop === 'error' || stop === 'aborted' ? stop : 'unknown',
        answer: (reply && textOf(reply.content)) || undefined,
        stop_reason: typeof stop === 'string' ? stop : undefined,
      },
      finishedAt: timeOfText(entries.at(-1)?.fields.timestamp),
    },
    refusals,
  );
}

/** The agent with the prompt and the tools that it begins with, where the session says them. */
function mainOf(entries: readonly Entry[]) {
  const first = entries.map(({ fields }) => systemIn(fields)).find((message) => message !== null);
  const { text, tools } = promptOf(first ? [first] : []);
  return {
    agent_id: MAIN,
    system_instructions: text === '' ? undefined : partsOf(text),
    tools: tools.length > 0 ? [...tools] : undefined,
  };
}

const messageOf = (fields: JsonObject): JsonObject | null =>
  fields.type === 'message' && isRecord(fields.message) ? fields.message : null;

function addEntries(trace: Trace, entries: readonly Entry[]): void {
  const byId = new Map(entries.map((entry) => [entry.id, entry]));
  for (const entry of entries) {
    const { fields, seq, id } = entry;
    const message = messageOf(fields);
    const time = timeOfText(fields.timestamp);
    const observe = (kind: string, content: unknown): void =>
      trace.add('environment.observed', [id], { seq, kind, content }, time);
    if (message?.role === 'assistant') addAnswer(trace, entry, message, shownTo(entry, byId));
    else if (message?.role === 'toolResult') {
      const { toolCallId, content, isError } = message;
      const returned = {
        ...{ seq, tool_call_id: trace.ledger.result(toolCallId as string) },
        status: isError === true ? 'error' : 'ok',
        output: content === undefined ? undefined : partsOf(content),
        ...resultFlags(content),
        native: { tool_call_id: toolCallId },
        unmapped: without(message, 'role', 'toolCallId', 'toolName', 'content', 'isError', 'timestamp'),
      } as const;
      trace.add('tool.returned', [id], returned, time);
    } else if (message?.role === 'bashExecution') observe('output', without(message, 'role', 'timestamp'));
    // Tokens that were billed for no answer, such as those that keep a cache warm.
    else if (fields.type === 'usage')
      observe('usage', {
        ...{ kind: fields.kind ?? null, model: fields.model ?? null, usage: usageOf(fields.usage) ?? null },
      });
    else {
      const shown = shownOf(fields);
      if (!shown) continue;
      const author = message?.role === 'user' ? 'user' : (message?.customType ?? fields.customType);
      const sent = {
        ...{ seq, message_id: id, from: isIdentifier(author) ? author : NAME, to: [MAIN], role: shown.role },
        content: shown.content ?? undefined,
        unmapped: without({ details: fields.details, usage: fields.usage }),
      };
      trace.add('message.sent', [id], sent, time);
    }
  }
}

/** One message for all calls that are shown an entry. */
function shownIn(entry: Entry): Message | null {
  const known = SHOWN.get(entry);
  if (known !== undefined) return known;
  const shown = shownOf(entry.fields);
  SHOWN.set(entry, shown);
  return shown;
}
const SHOWN = new WeakMap<Entry, Message | null>();

type VisibleContext = { readonly input: Message[]; readonly tools: readonly JsonObject[] };

/**
 * What a call was shown: the messages on the branch before its entry, from what the last compaction on it kept, as later entries of the
 * branch edited them, behind the prompt that system messages declare. A compaction with a prompt of its own stands for those before it.
 */
function shownTo(entry: Entry, byId: ReadonlyMap<string, Entry>): VisibleContext {
  const branch: Entry[] = [];
  const seen = new Set<string>();
  for (let at = byId.get(entry.parent ?? ''); at && !seen.has(at.id); at = byId.get(at.parent ?? '')) {
    seen.add(at.id);
    branch.push(at);
  }
  branch.reverse();
  const cut = branch.findLastIndex(({ fields }) => fields.type === 'compaction');
  const saved: unknown = branch[cut]?.fields.systemMessage;
  const checkpoint = isRecord(saved) ? saved : null;
  const from = branch.findIndex(({ id }) => id === branch[cut]?.fields.firstKeptEntryId);
  const kept = branch.slice(from < 0 ? cut : from, cut).filter(({ fields }) => !checkpoint || !systemIn(fields));
  const left = cut < 0 ? branch : [branch[cut]!, ...kept, ...branch.slice(cut + 1)];
  const systems = (checkpoint ? branch.slice(cut + 1) : branch)
    .map(({ fields }) => systemIn(fields))
    .filter((message) => message !== null);
  const { text, tools } = promptOf([...(checkpoint ? [checkpoint] : []), ...systems]);
  const edits = new Map(
    branch.flatMap(({ fields }) =>
      fields.type === 'context_edit' ? [[fields.targetId, fields.replacement ?? null] as const] : [],
    ),
  );
  const messages = left.flatMap((one): Message[] => {
    const replacement = edits.get(one.id);
    const shown = replacement === null ? null : shownIn(one);
    if (!shown) return [];
    return [replacement === undefined ? shown : ({ ...shown, content: partsOf(replacement) } as Message)];
  });
  const first = [checkpoint ? textOf(checkpoint.content) : '', text].filter((one) => one !== '').join('\n\n');
  return { input: first === '' ? messages : [{ role: 'system', content: partsOf(first) }, ...messages], tools };
}

const systemIn = (fields: JsonObject): JsonObject | null => {
  const message = messageOf(fields);
  return message?.role === 'system' ? message : null;
};

function addAnswer(
  trace: Trace,
  { fields, id, seq }: Entry,
  message: JsonObject,
  { input, tools }: VisibleContext,
): void {
  const { model, stopReason: reason, errorMessage: error, responseId } = message;
  const content = partsOf(message.content);
  const usage = usageOf(message.usage);
  const named = typeof model === 'string' ? model : undefined;
  const nothing = content.length === 0 && !((usage?.output_tokens as number) > 0);
  const blocks = (Array.isArray(message.content) ? message.content : []).filter(isRecord);
  trace.exchange(
    { seq, call_id: id, agent_id: MAIN },
    {
      // The message is made when the model is called, the entry is written when it has answered.
      askedAt: timeOfMs(message.timestamp),
      model: named,
      input,
      tools: tools.length > 0 ? [...tools] : undefined,
    },
    {
      at: timeOfText(fields.timestamp),
      choices: nothing ? [] : [{ index: 0, content, finish_reason: typeof reason === 'string' ? reason : undefined }],
      response_id: isIdentifier(responseId) ? responseId : undefined,
      response_model: named,
      usage,
      error: error ?? (nothing ? reason : undefined),
      unmapped: without(
        message,
        ...['role', 'content', 'model', 'stopReason', 'errorMessage', 'responseId', 'timestamp'],
        ...(usage ? ['usage'] : []),
      ),
    },
    blocks
      .filter(({ type }) => type === 'toolCall')
      .map((block) => ({
        ...{ id: block.id as string, name: block.name as string },
        ...{ type: 'function', arguments: block.arguments ?? null },
      })),
  );
}
