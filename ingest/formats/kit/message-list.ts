/**
 * Formats that are the messages of one conversation and nothing around them: a file that is the list or has a message a line, a list in
 * each line, or an object that holds the list in a member.
 */
import type { EventData } from '../../events/events.ts';
import { given, hashId, isRecord, type JsonObject } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { type ChatMessage, textIn } from './chat-message.ts';
import { badConversation, type ConversationOptions } from './conversation.ts';
import type { Conversion, Format, NativeRecord } from './format.ts';
import { emitterFor, revisedEmitter } from './native.ts';
import { demand, format, type Reader, unreadable } from './reader.ts';
import { NO_TOKEN_IDS, taskOf } from './run.ts';
import { Trace } from './trace.ts';

/** A message as the chat API writes it, and what else is known of it. */
export type ListedMessage = {
  readonly message: ChatMessage;
  readonly at?: string | null;
  readonly completed?: Partial<EventData<'generation.completed'>>;
  readonly sampled?: ReturnType<NonNullable<ConversationOptions['about']>>['sampled'];
};

/** The trace of a conversation, with the task that its user began with; the caller finishes it. */
export function conversationTrace(
  name: string,
  record: NativeRecord,
  listed: readonly ListedMessage[],
  {
    run,
    field = '',
    ...options
  }: Partial<ConversationOptions> & {
    readonly field?: string;
    /** What the source calls the run, which is the same one when it has grown; its content without it. */
    readonly run?: string | undefined;
  } = {},
  taskId?: unknown,
) {
  const messages = listed.map(({ message }) => message);
  demand(badConversation(messages, field));
  const trace =
    run === undefined
      ? new Trace(emitterFor(name), name, record)
      : new Trace(revisedEmitter(name), name, record, hashId(name, run));
  const known = new Map(listed.map((one) => [one.message, one]));
  trace.conversation(messages, {
    agentOf: ({ name: author }) => (isIdentifier(author) ? author : null),
    ...options,
    about: (message) => {
      const { at = null, sampled, completed } = known.get(message)!;
      return { at, ...given('sampled', sampled), ...completed };
    },
  });
  const asked = messages.find(({ role }) => role === 'user');
  const hasAnswer = messages.some(({ role }) => role === 'assistant');
  const task = taskOf(name, asked && textIn(asked.content), {}, taskId);
  return { trace, task, flags: hasAnswer ? [NO_TOKEN_IDS] : ['incomplete'] };
}

/** Messages of the model that follow each other are one answer. */
export function joinedAnswers(messages: readonly ChatMessage[]): ChatMessage[] {
  const joined: ChatMessage[] = [];
  for (const message of messages) {
    const last = joined.at(-1);
    if (message.role !== 'assistant' || last?.role !== 'assistant') joined.push(message);
    else {
      const thoughts = [last, message].flatMap(({ reasoning_content: text }) =>
        typeof text === 'string' ? [text] : [],
      );
      const calls = [last, message].flatMap(({ tool_calls: list }) => (Array.isArray(list) ? list : []));
      joined[joined.length - 1] = {
        ...last,
        ...message,
        content: joinedContent(last.content, message.content),
        ...(thoughts.length > 0 ? { reasoning_content: thoughts.join('\n') } : {}),
        ...(calls.length > 0 ? { tool_calls: calls } : {}),
      };
    }
  }
  return joined;
}

function joinedContent(before: unknown, after: unknown): unknown {
  const isEmpty = (content: unknown): boolean => content == null || (Array.isArray(content) && content.length === 0);
  if (isEmpty(before)) return after ?? null;
  if (isEmpty(after)) return before;
  return [before, after].flatMap((content) =>
    typeof content === 'string' ? [{ type: 'text', text: content }] : content,
  );
}

export function messageList(declared: {
  readonly name: string;
  readonly summary: string;
  /** Whether this is a message that no other format has. */
  readonly isMessage: (one: JsonObject) => boolean;
  /** Whether it may stand among them. */
  readonly mayBe?: (one: JsonObject) => boolean;
  /** The member of an object that holds the list; without it no object is of this format. */
  readonly member?: string;
  readonly read: (messages: readonly JsonObject[]) => readonly ListedMessage[];
}): Format {
  const { name, summary, isMessage, mayBe = () => false, member, read } = declared;
  const areMessages = (list: unknown): list is readonly JsonObject[] =>
    Array.isArray(list) &&
    list.some((one) => isRecord(one) && isMessage(one)) &&
    list.every((one) => isRecord(one) && (isMessage(one) || mayBe(one)));
  const converted = (list: unknown, record: NativeRecord, around?: Reader): Conversion => {
    const field = around && member ? member : '';
    if (!areMessages(list)) return unreadable('bad_type', field, `a list of messages of ${name}`, list);
    const tools = around?.any('tools');
    const { trace, task, flags } = conversationTrace(name, record, read(list), { field, tools });
    const id = around?.any('id');
    const native = { format: name, ...(isIdentifier(id) ? { ids: { id } } : {}) };
    return trace.finish({
      task,
      started: { native, flags, unmapped: around?.rest() },
      finished: { outcome: 'unknown' },
    });
  };
  const base = format({
    name,
    summary,
    called: `a list of messages of ${name}`,
    recognises: () => false,
    gathers: ({ records, shape }) => (shape !== 'document' && areMessages(records) ? 'file' : null),
    convert: (around, record) => converted(member && around.any(member), record, around),
    convertAll: (list, record) => converted(list, record),
  });
  return {
    ...base,
    recognises: ({ records, shape }) =>
      (shape !== 'document' && areMessages(records)) ||
      records.some((one) => areMessages(one) || (member !== undefined && isRecord(one) && areMessages(one[member]))),
  };
}
