/**
 * xLAM unified trajectories: one conversation a record with an id of its own. There is no agent; the instruction of the task is its
 * system prompt. A tool message without an id answers the latest open call.
 */
import { given, isRecord, without } from '../../events/json.ts';
import type { ChatMessage } from '../kit/chat-message.ts';
import { badConversation, conversationDrafts } from '../kit/conversation.ts';
import type { Conversion, Format, NativeRecord } from '../kit/format.ts';
import { badIdentifier, refusal, refused, revisedEmitter } from '../kit/native.ts';
import { NO_TOKEN_IDS, runDrafts, taskOf } from '../kit/run.ts';

const NAME = 'xlam';
const emit = revisedEmitter(NAME);

export const xlam: Format = {
  name: NAME,
  summary: 'xLAM trajectories {unique_trajectory_id, task_instruction, tools, conversation}',
  recognises: ({ records }) =>
    records.some(
      (record) =>
        isRecord(record) &&
        ('unique_trajectory_id' in record || 'task_instruction' in record) &&
        Array.isArray(record.conversation),
    ),
  convert,
  restates: new Set(['task.defined']),
};

function convert(record: NativeRecord): Conversion {
  const { value: row } = record;
  if (!isRecord(row)) return refused(refusal('bad_type', '', 'a trajectory object', row));
  const { unique_trajectory_id: id, conversation, task_instruction: instruction, tools, split, dataset } = row;
  const badId = badIdentifier(id, 'unique_trajectory_id');
  if (badId) return refused(badId);
  if (!Array.isArray(conversation))
    return refused(refusal('bad_type', 'conversation', 'a list of messages', conversation));
  const messages = withCallIds(conversation);
  const bad = badConversation(messages, 'conversation');
  if (bad) return refused(bad);
  const hasInstruction = typeof instruction === 'string' && instruction !== '';
  const chat = messages as ChatMessage[];
  const wholeChat = hasInstruction ? [{ role: 'system', content: instruction }, ...chat] : chat;
  const episodeId = id as string;
  const asked = chat.find((message) => message.role === 'user')?.content;
  const drafts = conversationDrafts(emit, wholeChat, { episodeId, agentOf: () => null, ...given('tools', tools) });
  const broken = drafts.some((draft) => draft.name === 'tool.called' && draft.data.parse_error);
  const known = [
    'unique_trajectory_id',
    'conversation',
    'tools',
    'split',
    'dataset',
    ...(hasInstruction ? ['task_instruction'] : []),
  ];
  return {
    drafts: runDrafts(emit, {
      format: NAME,
      episodeId,
      canonical: record.canonical,
      task: taskOf(NAME, asked, {
        ...(typeof split === 'string' ? { split } : {}),
        ...given('tags', without({ dataset })),
      }),
      started: {
        flags: [NO_TOKEN_IDS, ...(broken ? ['unparsed_tool_call'] : [])],
        ...given(
          'unmapped',
          without({ ...without(row, ...known), ...(typeof split === 'string' ? {} : given('split', split)) }),
        ),
      },
      events: drafts,
      finished: { outcome: 'unknown' },
    }),
    refusals: [],
    raw: record.canonical,
    repeated: record.ordinal > 0,
  };
}

/** The conversation with an id on each call and on each result: where one has none, results answer calls in their order. */
function withCallIds(conversation: readonly unknown[]): unknown[] {
  const open: string[] = [];
  return conversation.map((message, seq) => {
    if (!isRecord(message)) return message;
    if (message.role === 'assistant' && Array.isArray(message.tool_calls)) {
      const calls = message.tool_calls.map((call: unknown, k) => {
        if (!isRecord(call)) return call;
        const own = call.id ?? `${seq}.${k}`;
        if (typeof own === 'string') open.push(own);
        // Some parts of the set write a call without the wrapper of the chat API.
        const wrapped =
          call.function === undefined && 'name' in call
            ? { function: { name: call.name, arguments: call.arguments } }
            : {};
        return { ...call, ...wrapped, id: own };
      });
      return { ...message, tool_calls: calls };
    }
    if (message.role !== 'tool') return message;
    const id = message.tool_call_id ?? open[0];
    const place = open.indexOf(id as string);
    if (place >= 0) open.splice(place, 1);
    return { ...message, tool_call_id: id };
  });
}
