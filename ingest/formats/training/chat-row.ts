/** One row of OpenAI chat JSONL, `{messages, tools?, …}`: a conversation without a run, an agent, a time or a reward of its own. */
import { canonicalJson, given, isRecord, type JsonObject } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { fromAnthropic } from '../kit/anthropic-blocks.ts';
import { type ChatMessage, fromMessage, textIn } from '../kit/chat-message.ts';
import { badConversation } from '../kit/conversation.ts';
import type { Conversion, NativeRecord, RestoredEvent } from '../kit/format.ts';
import { taskIdOfText } from '../kit/native.ts';
import { demand, type Reader } from '../kit/reader.ts';
import { Trace } from '../kit/trace.ts';
import { withCallIds } from './chat-unnamed.ts';

/** The task of a conversation: the text the user began with. */
export function taskIn(messages: readonly ChatMessage[], id?: string) {
  const first =
    messages.find((message) => message.role === 'user' && !message.name) ?? messages.find((m) => m.role === 'user');
  const query = first ? textIn(first.content) : undefined;
  const taskId = id ?? (query === undefined ? null : taskIdOfText(query));
  return taskId === null ? null : { task_id: taskId, query };
}

export function convertChatRow(format: string, row: Reader, record: NativeRecord): Conversion {
  const list = row.has('messages') || !row.has('conversations') ? 'messages' : 'conversations';
  row.any(list);
  const read = withCallIds(fromAnthropic(row.native[list], row.native.system));
  demand(badConversation(read, list));
  const messages = read as ChatMessage[];
  const trace = Trace.of(format, record);
  trace.conversation(messages, {
    agentOf: (message) => (typeof message.name === 'string' ? message.name : null),
    tools: row.native.tools,
    around: row.native,
  });
  const called = trace.events.some((draft) => draft.name === 'generation.completed');
  if (called) row.any('tools');
  const rest = row.rest();
  // A row that the events cannot give back to the letter is kept beside them.
  const exact = canonicalJson(rowOf(rest, trace.events)) === record.canonical;
  return trace.finish({
    task: taskIn(messages, taskIdIn(row.native)),
    started: {
      native: { format, form: 'chat-row' },
      flags: called ? undefined : ['incomplete'],
      unmapped: exact ? rest : { record: record.value },
    },
  });
}

/** The task that a row names beside its messages or in its metadata. */
const taskIdIn = ({ task_id: id, metadata }: Record<string, unknown>): string | undefined =>
  [id, isRecord(metadata) ? metadata.task_id : undefined].find(isIdentifier);

/** The row that an episode was read from. */
export function writeChatRow(episode: readonly RestoredEvent[]): unknown {
  const start = episode.find((event) => event.name === 'episode.started')?.data.unmapped as JsonObject | undefined;
  return start?.record === undefined ? rowOf(start, episode) : start.record;
}

function rowOf(rest: JsonObject | undefined, episode: readonly RestoredEvent[]): JsonObject {
  const about = episode
    .flatMap((event) => {
      const message = messageOf(event);
      return message ? [{ seq: event.data.seq as number, message }] : [];
    })
    .sort((a, b) => a.seq - b.seq);
  const asked = episode.find((event) => event.name === 'generation.requested');
  return { ...rest, ...given('tools', asked?.data.tools), messages: about.map(({ message }) => message) };
}

function messageOf({ name, data }: RestoredEvent): unknown {
  const rest = (data.unmapped ?? {}) as Record<string, unknown>;
  if (name === 'message.sent') {
    const named = data.from === data.role ? {} : { name: data.from };
    return fromMessage({ ...rest, ...named, role: data.role, ...given('content', data.content) });
  }
  if (name === 'tool.returned') {
    const { tool_call_id: id } = data.native as { tool_call_id: string };
    return fromMessage({ ...rest, role: 'tool', tool_call_id: id, ...given('content', data.output) });
  }
  if (name !== 'generation.completed') return null;
  const [choice] = data.choices as { content?: unknown }[];
  return fromMessage({ ...rest, role: 'assistant', ...given('content', choice?.content) });
}
