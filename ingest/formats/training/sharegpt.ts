/**
 * ShareGPT rows, as LLaMA-Factory reads them. There is no agent and no id of a call; an observation answers the call before it. A row
 * in which people and the model do not alternate is kept and flagged. Preference rows hold two answers, KTO rows a verdict.
 */
import type { Refusal } from '../../../errors.ts';
import type { Draft } from '../../events/events.ts';
import { given, hashId, isRecord, parseRecord, without } from '../../events/json.ts';
import { parseWritten } from '../../events/spelling.ts';
import { isIdentifier } from '../../events/text.ts';
import type { ChatMessage } from '../kit/chat-message.ts';
import { conversationDrafts } from '../kit/conversation.ts';
import type { Conversion, Format, NativeRecord } from '../kit/format.ts';
import { emitterFor, recordId, refusal, refused } from '../kit/native.ts';
import { NO_TOKEN_IDS, runDrafts, taskOf } from '../kit/run.ts';

const NAME = 'sharegpt';
const emit = emitterFor(NAME);

export const sharegpt: Format = {
  name: NAME,
  summary: 'ShareGPT rows {conversations: [{from, value}], system?, tools?}, with chosen and rejected or kto_tag',
  recognises: ({ records }) =>
    records.some(
      (record) =>
        isRecord(record) &&
        Array.isArray(record.conversations) &&
        record.conversations.some((entry) => isRecord(entry) && 'from' in entry && 'value' in entry),
    ),
  convert,
  restates: new Set(['task.defined']),
};

type Speaker = 'human' | 'gpt' | 'function_call' | 'observation' | 'system';
type Entry = { readonly from: Speaker; readonly value: string };

const SPEAKERS: ReadonlyMap<unknown, Speaker> = new Map([
  ['human', 'human'],
  ['user', 'human'],
  ['gpt', 'gpt'],
  ['chatgpt', 'gpt'],
  ['assistant', 'gpt'],
  ['function_call', 'function_call'],
  ['observation', 'observation'],
  ['tool', 'observation'],
  ['system', 'system'],
]);
const FROM_USER: readonly Speaker[] = ['human', 'observation'];
/** Roles of the second, fourth … message, after a system message. */
const FROM_MODEL: readonly Speaker[] = ['gpt', 'function_call'];

function convert(record: NativeRecord): Conversion {
  const { value: row } = record;
  if (!isRecord(row)) return refused(refusal('bad_type', '', 'a row with conversations', row));
  const bad = badRow(row);
  if (bad) return refused(bad);
  const entries = (row.conversations as Entry[]).map(({ from, value }) => ({ from: SPEAKERS.get(from)!, value }));
  const episodeId = recordId(NAME, record);
  const messages = chatMessages(row, entries);
  const tools = toolsOf(row.tools);
  const drafts = conversationDrafts(emit, messages, { episodeId, agentOf: () => null, ...given('tools', tools) });
  const flags = [
    ...(entries.some(({ from, value }, i) => from === 'function_call' && !callMessage(value, i).tool_calls)
      ? ['unparsed_tool_call']
      : []),
    ...(alternates(entries) ? [] : ['broken_alternation']),
  ];
  const judged = judgedDrafts(row, episodeId, messages, tools);
  const mapped = ['conversations', ...(typeof row.system === 'string' ? ['system'] : []), 'id', 'tools'];
  const rated = judged.length > 0 ? ['chosen', 'rejected', 'kto_tag'] : [];
  return {
    drafts: runDrafts(emit, {
      format: NAME,
      episodeId,
      canonical: record.canonical,
      task: taskOf(NAME, entries.find((entry) => entry.from === 'human')?.value),
      started: {
        native: { format: NAME, ids: given('id', row.id) },
        flags: [NO_TOKEN_IDS, ...flags],
        ...given('unmapped', without(row, ...mapped, ...rated)),
      },
      events: [...drafts.map(withoutInventedId), ...judged],
      finished: { outcome: 'unknown' },
    }),
    refusals: [],
    raw: record.canonical,
  };
}

function badRow({ conversations, chosen, rejected }: Record<string, unknown>): Refusal | null {
  if (!Array.isArray(conversations)) return refusal('bad_type', 'conversations', 'a list of entries', conversations);
  if (conversations.length === 0) return refusal('bad_shape', 'conversations', 'at least one entry', conversations);
  let called = false;
  for (const [i, entry] of conversations.entries()) {
    const field = `conversations[${i}]`;
    const bad = badEntry(entry, field);
    if (bad) return bad;
    const from = SPEAKERS.get(entry.from)!;
    const opens = i === 0 || (i === 1 && SPEAKERS.get(conversations[0].from) === 'system');
    if (opens && FROM_MODEL.includes(from)) {
      return refusal('bad_shape', `${field}.from`, 'a person, to whom the model answers', entry.from);
    }
    if (from === 'observation' && !called) {
      return refusal('bad_reference', `${field}.from`, 'an observation after a function_call', entry.from);
    }
    called = from === 'function_call';
  }
  for (const [name, answer] of Object.entries({ chosen, rejected })) {
    const bad = isRecord(answer) && ('from' in answer || 'value' in answer) ? badEntry(answer, name) : null;
    if (bad) return bad;
  }
  return null;
}

/** Whether user and model alternate, as LLaMA-Factory requires: it drops other rows. */
const alternates = (entries: readonly Entry[]): boolean =>
  entries
    .slice(entries[0]?.from === 'system' ? 1 : 0)
    .every(({ from }, i) => (i % 2 === 0 ? FROM_USER : FROM_MODEL).includes(from));

function badEntry(entry: unknown, field: string): Refusal | null {
  if (!isRecord(entry)) return refusal('bad_type', field, 'an entry with from and value', entry);
  if (!SPEAKERS.has(entry.from)) {
    return refusal('bad_type', `${field}.from`, 'human, gpt, function_call, observation or system', entry.from);
  }
  return typeof entry.value === 'string' ? null : refusal('bad_type', `${field}.value`, 'a text', entry.value);
}

/** The row as chat messages; calls get ids made from their place. */
function chatMessages(row: Record<string, unknown>, entries: readonly Entry[]): ChatMessage[] {
  const messages: ChatMessage[] = [];
  if (typeof row.system === 'string' && row.system !== '') messages.push({ role: 'system', content: row.system });
  let last: string | null = null;
  for (const [i, { from, value }] of entries.entries()) {
    if (from === 'function_call') {
      const message = callMessage(value, i);
      last = Array.isArray(message.tool_calls) ? (message.tool_calls.at(-1) as { id: string }).id : null;
      messages.push(message);
    } else if (from === 'observation' && last !== null) {
      messages.push({ role: 'tool', tool_call_id: last, content: value });
      last = null;
    } else messages.push({ role: from === 'gpt' ? 'assistant' : from === 'human' ? 'user' : 'system', content: value });
  }
  return messages;
}

/** Calls are the JSON of one {name, arguments} or of a list of them; what is not stays the text it is, flagged. */
function callMessage(value: string, place: number): ChatMessage {
  const parsed = parseWritten(value);
  const calls = 'refusal' in parsed ? [] : [parsed.value].flat();
  if (calls.length === 0 || !calls.every((call) => isRecord(call) && isIdentifier(call.name))) {
    return { role: 'assistant', content: value };
  }
  return {
    role: 'assistant',
    content: null,
    tool_calls: (calls as Record<string, unknown>[]).map(({ name, arguments: asked }, k) => ({
      id: `${place}.${k}`,
      type: 'function',
      function: { name, ...given('arguments', asked) },
    })),
  };
}

const withoutInventedId = (draft: Draft): Draft => {
  if (draft.name !== 'tool.called' && draft.name !== 'tool.returned') return draft;
  const { native: _, ...data } = draft.data;
  return { ...draft, data } as Draft;
};

/** Tool definitions are JSON in a text; a text that is not stays one. */
function toolsOf(tools: unknown): unknown {
  if (typeof tools !== 'string') return tools ?? undefined;
  const parsed = parseRecord(tools);
  return 'refusal' in parsed ? tools : parsed.value;
}

function judgedDrafts(
  row: Record<string, unknown>,
  episodeId: string,
  messages: readonly ChatMessage[],
  tools: unknown,
): Draft[] {
  const { chosen, rejected, kto_tag: tag } = row;
  if (isEntry(chosen) && isEntry(rejected)) {
    const last = { episodeId, agentOf: () => null, ...given('tools', tools) };
    const [asked, answered] = conversationDrafts(
      emit,
      [...messages, { role: 'assistant', content: chosen.value }],
      last,
    ).slice(-2);
    const callId = `m${messages.length}`;
    const choices = [chosen, rejected].map(({ value }, index) => ({ index, content: value, chosen: index === 0 }));
    return [
      asked!,
      { ...answered!, data: { ...answered!.data, choices } } as Draft,
      emit.event('feedback.recorded', [episodeId, 'preference'], {
        feedback_id: hashId(NAME, episodeId, 'preference'),
        target: { kind: 'pair', id: `${callId}/0`, other_id: `${callId}/1`, episode_id: episodeId },
        kind: 'preference',
        name: 'preference',
      }),
    ];
  }
  const answer = messages.findLastIndex((message) => message.role === 'assistant');
  if (typeof tag !== 'boolean' || answer < 0) return [];
  return [
    emit.event('feedback.recorded', [episodeId, 'kto_tag'], {
      feedback_id: hashId(NAME, episodeId, 'kto_tag'),
      target: { kind: 'step', id: `m${answer}/0`, episode_id: episodeId },
      kind: 'label',
      name: 'kto_tag',
      value: tag,
    }),
  ];
}

const isEntry = (value: unknown): value is Entry => isRecord(value) && badEntry(value, '') === null;
