/**
 * Sessions of the Pi coding agent, `~/.pi/agent/sessions/<folder>/<time>_<id>.jsonl`: a header, then entries that form a tree. Read
 * from what version 0.73.1 (npm @mariozechner/pi-coding-agent) writes against a scripted model server, and from its
 * docs/session-format.md. Version 1 of the file has no tree: each entry follows the one before it.
 */
import type { Draft, Message } from '../../events/events.ts';
import { given, isRecord, type JsonObject, without } from '../../events/json.ts';
import { writtenJson } from '../../events/spelling.ts';
import { isIdentifier } from '../../events/text.ts';
import { resultFlags, toolLedger } from '../kit/conversation.ts';
import type { Conversion, Format, NativeRecord, NativeRefusal } from '../kit/format.ts';
import { marksOf } from '../kit/marks.ts';
import { badIdentifier, refusal, refused, revisedEmitter } from '../kit/native.ts';
import { NO_TOKEN_IDS, runDrafts, taskOf, timeOfSeconds, timeOfText } from '../kit/run.ts';
import { usageOf } from '../kit/usage.ts';
import { badEntry, type Entry, partsOf, promptOf, shownOf, textOf } from './pi-entries.ts';

const NAME = 'pi';
const emit = revisedEmitter(NAME);
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

export const pi: Format = {
  name: NAME,
  summary:
    'Sessions of the Pi coding agent: {type: "session", id, cwd}, then {type: "message", id, parentId, message} …',
  recognises: ({ records }) => records.some((record) => isHeader(record) || isEntry(record)),
  gathers: () => 'file',
  joins: {
    names: sessionsIn,
    episodes: sessionsIn,
    marks: (line) =>
      isRecord(line) && line.type !== 'session' ? marksOf([line.id], [line.parentId]) : marksOf([], []),
    timeOf: (line) => (!isRecord(line) || line.type === 'session' ? null : timeOfText(line.timestamp)),
    needsName: true,
  },
  convert,
  restates: new Set(['task.defined']),
};

function sessionsIn(lines: readonly unknown[]): string[] {
  const id = lines.find(isHeader)?.id;
  return isIdentifier(id) ? [id] : [];
}

function convert(record: NativeRecord): Conversion {
  const list = Array.isArray(record.value) ? (record.value as unknown[]) : [record.value];
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
  for (const [seq, native] of list.entries()) {
    if (native === header) continue;
    const bad = badEntry(native);
    if (bad) {
      refusals.push({ ...bad, at: seq });
      continue;
    }
    const fields = native as JsonObject;
    const before = entries.at(-1)?.id ?? null;
    entries.push({
      seq,
      fields,
      id: isIdentifier(fields.id) ? fields.id : `e${seq}`,
      parent: fields.parentId === undefined ? before : isIdentifier(fields.parentId) ? fields.parentId : null,
    });
  }
  if (badHeader) return refused(badHeader, ...refusals);
  const original = writtenJson(list);
  return {
    drafts: sessionDrafts(header!, entries, original, refusals.length > 0),
    refusals,
    raw: original,
    repeated: record.ordinal > 0,
  };
}

function sessionDrafts(header: JsonObject, entries: readonly Entry[], original: string, broken: boolean): Draft[] {
  const episodeId = header.id as string;
  const { cwd, parentSession, version, harness } = header;
  const asked = entries.find(({ fields }) => messageOf(fields)?.role === 'user');
  const last = entries.findLast(({ fields }) => messageOf(fields)?.role === 'assistant');
  const reply = last && messageOf(last.fields);
  const answer = reply ? textOf(reply.content) : '';
  const title = entries.findLast(({ fields }) => fields.type === 'session_info')?.fields.name;
  return runDrafts(emit, {
    format: NAME,
    episodeId,
    canonical: original,
    task: taskOf(NAME, asked && textOf(messageOf(asked.fields)?.content)),
    started: {
      session_id: episodeId,
      flags: [NO_TOKEN_IDS, ...(broken ? ['incomplete'] : [])],
      ...given('tags', without({ cwd, version, harness, parent_session: parentSession, name: title ?? undefined })),
    },
    startedAt: timeOfText(header.timestamp),
    agents: [mainOf(entries)],
    events: entryDrafts(episodeId, entries),
    finished: {
      outcome: reply?.stopReason === 'error' ? 'error' : reply?.stopReason === 'aborted' ? 'aborted' : 'unknown',
      ...(answer === '' ? {} : { answer }),
      ...(typeof reply?.stopReason === 'string' ? { stop_reason: reply.stopReason } : {}),
    },
    finishedAt: timeOfText(entries.at(-1)?.fields.timestamp),
  });
}

/** The agent with the prompt and the tools that it begins with, where the session says them. */
function mainOf(entries: readonly Entry[]) {
  const first = entries.map(({ fields }) => systemIn(fields)).find((message) => message !== null);
  const { text, tools } = promptOf(first ? [first] : []);
  return {
    agent_id: MAIN,
    ...(text === '' ? {} : { system_instructions: partsOf(text) }),
    ...(tools.length > 0 ? { tools: [...tools] } : {}),
  };
}

const messageOf = (fields: JsonObject): JsonObject | null =>
  fields.type === 'message' && isRecord(fields.message) ? fields.message : null;

function entryDrafts(episodeId: string, entries: readonly Entry[]): Draft[] {
  const ledger = toolLedger();
  const byId = new Map(entries.map((entry) => [entry.id, entry]));
  return entries.flatMap((entry): Draft[] => {
    const { fields, seq, id } = entry;
    const message = messageOf(fields);
    const time = timeOfText(fields.timestamp);
    const about = { episode_id: episodeId, seq };
    if (message?.role === 'assistant')
      return answerDrafts(entry, message, shownTo(entry, byId), { ...about, call_id: id, agent_id: MAIN }, ledger);
    if (message?.role === 'toolResult') {
      return [
        emit.event(
          'tool.returned',
          [episodeId, id],
          {
            ...about,
            tool_call_id: ledger.result(message.toolCallId as string),
            status: message.isError === true ? 'error' : 'ok',
            ...given('output', message.content === undefined ? undefined : partsOf(message.content)),
            ...resultFlags(message.content),
            native: { tool_call_id: message.toolCallId },
            ...given('unmapped', without(message, 'role', 'toolCallId', 'toolName', 'content', 'isError', 'timestamp')),
          },
          time,
        ),
      ];
    }
    if (message?.role === 'bashExecution') {
      const content = without(message, 'role', 'timestamp');
      return [
        emit.event(
          'environment.observed',
          [episodeId, id],
          { ...about, kind: 'output', ...given('content', content) },
          time,
        ),
      ];
    }
    // Tokens that were billed for no answer, such as those that keep a cache warm.
    if (fields.type === 'usage') {
      const content = { kind: fields.kind ?? null, model: fields.model ?? null, usage: usageOf(fields.usage) ?? null };
      return [emit.event('environment.observed', [episodeId, id], { ...about, kind: 'usage', content }, time)];
    }
    const shown = shownOf(fields);
    if (!shown) return [];
    const author = message?.role === 'user' ? 'user' : (message?.customType ?? fields.customType);
    return [
      emit.event(
        'message.sent',
        [episodeId, id],
        {
          ...about,
          message_id: id,
          from: isIdentifier(author) ? author : NAME,
          to: [MAIN],
          role: shown.role,
          ...given('content', shown.content ?? undefined),
          ...given('unmapped', without({ ...given('details', fields.details), ...given('usage', fields.usage) })),
        },
        time,
      ),
    ];
  });
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

function answerDrafts(
  { fields, id }: Entry,
  message: JsonObject,
  { input, tools }: VisibleContext,
  call: { episode_id: string; seq: number; call_id: string; agent_id: string },
  ledger: ReturnType<typeof toolLedger>,
): Draft[] {
  const { model, stopReason: reason, errorMessage: error, responseId } = message;
  const content = partsOf(message.content);
  const usage = usageOf(message.usage);
  const time = timeOfText(fields.timestamp);
  // The message is made when the model is called, the entry is written when it has answered.
  const askedAt = typeof message.timestamp === 'number' ? timeOfSeconds(message.timestamp / 1000) : null;
  const named = typeof model === 'string' ? { model } : {};
  const nothing = content.length === 0 && !((usage?.output_tokens as number) > 0);
  let index = 0;
  return [
    emit.event(
      'generation.requested',
      [call.episode_id, id],
      { ...call, ...named, input, ...(tools.length > 0 ? { tools: [...tools] } : {}) },
      askedAt,
    ),
    emit.event(
      'generation.completed',
      [call.episode_id, id],
      {
        ...call,
        choices: nothing
          ? []
          : [{ index: 0, content, ...(typeof reason === 'string' ? { finish_reason: reason } : {}) }],
        ...(isIdentifier(responseId) ? { response_id: responseId } : {}),
        ...(typeof model === 'string' ? { response_model: model } : {}),
        ...given('usage', usage),
        ...given('error', error ?? (nothing ? reason : undefined)),
        ...given(
          'unmapped',
          without(
            message,
            'role',
            'content',
            'model',
            'stopReason',
            'errorMessage',
            'responseId',
            'timestamp',
            ...(usage ? ['usage'] : []),
          ),
        ),
      },
      time,
    ),
    ...(Array.isArray(message.content) ? message.content : []).flatMap((block: unknown): Draft[] => {
      if (!isRecord(block) || block.type !== 'toolCall') return [];
      const data = {
        ...call,
        tool_call_id: ledger.call(block.id as string),
        index: index++,
        name: block.name as string,
        type: 'function',
        arguments: block.arguments ?? null,
        native: { tool_call_id: block.id },
      };
      return [emit.event('tool.called', [call.episode_id, id, data.index], data, time)];
    }),
  ];
}
