/** One row of OpenAI chat JSONL, `{messages, tools?, …}`: a conversation without a run, an agent, a time or a reward of its own. */
import type { Draft } from '../../events/events.ts';
import { canonicalJson, given, isRecord, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { fromAnthropic } from '../kit/anthropic-blocks.ts';
import { type ChatMessage, fromMessage, textIn } from '../kit/chat-message.ts';
import { badConversation, conversationDrafts } from '../kit/conversation.ts';
import type { Conversion, NativeRecord, RestoredEvent } from '../kit/format.ts';
import { type Emitter, rawRecord, recordId, refused, taskIdOfText } from '../kit/native.ts';
import { withCallIds } from './chat-unnamed.ts';

/** The task of a conversation: the text the user began with. */
export function taskDraft(
  emit: Emitter,
  messages: readonly ChatMessage[],
  id?: string,
): { taskId: string | null; drafts: Draft[] } {
  const first =
    messages.find((message) => message.role === 'user' && !message.name) ?? messages.find((m) => m.role === 'user');
  const query = first ? textIn(first.content) : undefined;
  const taskId = id ?? (query === undefined ? null : taskIdOfText(query));
  if (taskId === null) return { taskId, drafts: [] };
  return { taskId, drafts: [emit.state('task.defined', { task_id: taskId, ...given('query', query) })] };
}

export function convertChatRow(
  emit: Emitter,
  format: string,
  row: Record<string, unknown>,
  record: NativeRecord,
): Conversion {
  const read = withCallIds(fromAnthropic(row.messages, row.system));
  const bad = badConversation(read, 'messages');
  if (bad) return refused(bad);
  const messages = read as ChatMessage[];
  const episodeId = recordId(format, record);
  const raw = rawRecord(emit, episodeId, record.canonical);
  const { taskId, drafts: task } = taskDraft(emit, messages, taskIdIn(row));
  const drafts = conversationDrafts(emit, messages, {
    episodeId,
    agentOf: (message) => (typeof message.name === 'string' ? message.name : null),
    ...given('tools', row.tools),
    around: row,
  });
  const called = drafts.some((draft) => draft.name === 'generation.requested');
  const rest = without(row, 'messages', ...(called ? ['tools'] : []));
  const started = (unmapped: Record<string, unknown> | undefined): Draft =>
    emit.event('episode.started', [episodeId], {
      episode_id: episodeId,
      ...(taskId === null ? {} : { task_id: taskId }),
      native: { format, form: 'chat-row' },
      raw: { artifact_id: raw.artifactId },
      ...(drafts.some((draft) => draft.name === 'generation.completed') ? {} : { flags: ['incomplete'] }),
      ...given('unmapped', unmapped),
    });
  const finished = emit.event('episode.finished', [episodeId], { episode_id: episodeId, outcome: 'unknown' });
  // A row that the events cannot give back to the letter is kept beside them.
  const exact = canonicalJson(writeChatRow([started(rest), ...drafts])) === record.canonical;
  const start = exact ? started(rest) : started({ record: record.value });
  return { drafts: [...task, raw.draft, start, ...drafts, finished], refusals: [], raw: record.canonical };
}

/** The task that a row names beside its messages or in its metadata. */
const taskIdIn = ({ task_id: id, metadata }: Record<string, unknown>): string | undefined =>
  [id, isRecord(metadata) ? metadata.task_id : undefined].find(isIdentifier);

/** The row that an episode was read from. */
export function writeChatRow(episode: readonly RestoredEvent[]): unknown {
  const start = episode.find((event) => event.name === 'episode.started')?.data.unmapped as
    | Record<string, unknown>
    | undefined;
  if (start?.record !== undefined) return start.record;
  const about = episode
    .flatMap((event) => {
      const message = messageOf(event);
      return message ? [{ seq: event.data.seq as number, message }] : [];
    })
    .sort((a, b) => a.seq - b.seq);
  const asked = episode.find((event) => event.name === 'generation.requested');
  return { ...start, ...given('tools', asked?.data.tools), messages: about.map(({ message }) => message) };
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
