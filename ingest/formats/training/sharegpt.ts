/**
 * ShareGPT rows, as LLaMA-Factory reads them. There is no agent and no id of a call; an observation answers the call before it. A row
 * in which people and the model do not alternate is kept and flagged. Preference rows hold two answers, KTO rows a verdict.
 */
import type { Refusal } from '../../../errors.ts';
import type { Draft } from '../../events/events.ts';
import { given, isRecord, parseRecord, without } from '../../events/json.ts';
import { parseWritten } from '../../events/spelling.ts';
import { isIdentifier } from '../../events/text.ts';
import type { ChatMessage } from '../kit/chat-message.ts';
import { conversationDrafts } from '../kit/conversation.ts';
import { emitterFor, refusal } from '../kit/native.ts';
import { demand, format } from '../kit/reader.ts';
import { taskOf } from '../kit/run.ts';
import { Trace } from '../kit/trace.ts';

const NAME = 'sharegpt';
const emit = emitterFor(NAME);

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

export const sharegpt = format({
  name: NAME,
  summary: 'ShareGPT rows {conversations: [{from, value}], system?, tools?}, with chosen and rejected or kto_tag',
  called: 'a row with conversations',
  recognises: ({ conversations }) =>
    Array.isArray(conversations) &&
    conversations.some((entry) => isRecord(entry) && 'from' in entry && 'value' in entry),
  convert({ native: row }, record) {
    demand(badRow(row));
    const entries = (row.conversations as Entry[]).map(({ from, value }) => ({ from: SPEAKERS.get(from)!, value }));
    const messages = chatMessages(row, entries);
    const tools = toolsOf(row.tools);
    const trace = Trace.of(NAME, record);
    trace.conversation(messages, { agentOf: () => null, tools });
    for (const [i, draft] of trace.events.entries()) trace.events[i] = withoutInventedId(draft);
    const isBroken = ({ from, value }: Entry, i: number) =>
      from === 'function_call' && !callMessage(value, i).tool_calls;
    const flags = [
      ...(entries.some(isBroken) ? ['unparsed_tool_call'] : []),
      ...(alternates(entries) ? [] : ['broken_alternation']),
    ];
    const rated = addJudgement(trace, row, messages, tools) ? ['chosen', 'rejected', 'kto_tag'] : [];
    const mapped = ['conversations', ...(typeof row.system === 'string' ? ['system'] : []), 'id', 'tools'];
    return trace.finish({
      task: taskOf(NAME, entries.find((entry) => entry.from === 'human')?.value),
      flags,
      started: {
        native: { format: NAME, ids: given('id', row.id) },
        unmapped: without(row, ...mapped, ...rated),
      },
    });
  },
});

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

/** Whether the row judges: one of two answers, or the last answer by itself. */
function addJudgement(
  trace: Trace,
  { chosen, rejected, kto_tag: tag }: Record<string, unknown>,
  messages: readonly ChatMessage[],
  tools: unknown,
): boolean {
  const { episodeId: episode_id } = trace;
  if (isEntry(chosen) && isEntry(rejected)) {
    const last = { episodeId: episode_id, agentOf: () => null, tools };
    const answer = { role: 'assistant', content: chosen.value };
    const [asked, answered] = conversationDrafts(emit, [...messages, answer], last).slice(-2) as [Draft, Draft];
    const callId = `m${messages.length}`;
    const choices = [chosen, rejected].map(({ value }, index) => ({ index, content: value, chosen: index === 0 }));
    trace.events.push(asked, { ...answered, data: { ...answered.data, choices } } as Draft);
    const target = { kind: 'pair', id: `${callId}/0`, other_id: `${callId}/1`, episode_id } as const;
    trace.feedback(['preference'], { target, kind: 'preference', name: 'preference' });
    return true;
  }
  const answer = messages.findLastIndex((message) => message.role === 'assistant');
  if (typeof tag !== 'boolean' || answer < 0) return false;
  const target = { kind: 'step', id: `m${answer}/0`, episode_id } as const;
  trace.feedback(['kto_tag'], { target, kind: 'label', name: 'kto_tag', value: tag });
  return true;
}

const isEntry = (value: unknown): value is Entry => isRecord(value) && badEntry(value, '') === null;
