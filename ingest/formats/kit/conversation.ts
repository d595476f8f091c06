/**
 * A whole conversation with one agent, as events: each assistant message is a model call, the messages before it are its input,
 * tool calls pair with their results, and everything else is a message.
 */
import type { Refusal } from '../../../errors.ts';
import type { Draft, EventData, EventName, Message } from '../../events/events.ts';
import { given, isRecord, type JsonObject, parseRecord, without } from '../../events/json.ts';
import { badMessage, type ChatMessage, toMessage, toolCallsOf } from './chat-message.ts';
import { finishReasonIn } from './finish-reason.ts';
import { badIdentifier, type Emitter, refusal } from './native.ts';
import { demand, type Reader } from './reader.ts';

/** Why a list is not a conversation; null where it is one. A tool message must answer a call made before it. */
export function badConversation(messages: unknown, field: string): Refusal | null {
  if (!Array.isArray(messages)) return refusal('bad_type', field, 'a list of messages', messages);
  const calls = new Set<string>();
  for (const [i, message] of messages.entries()) {
    const place = `${field}[${i}]`;
    const bad = badMessage(message, place) ?? (message.role === 'tool' ? badResult(message, place, calls) : null);
    if (bad) return bad;
    for (const call of toolCallsOf(message)) calls.add(call.id);
  }
  return null;
}

/** The conversation in a field of a record, which cannot be read where it is none. */
export function conversationIn(record: Reader, name: string): readonly ChatMessage[] {
  record.any(name);
  demand(badConversation(record.native[name], record.path(name)));
  return record.native[name] as readonly ChatMessage[];
}

function badResult(message: Record<string, unknown>, place: string, calls: ReadonlySet<string>): Refusal | null {
  const id = message.tool_call_id;
  const bad = badIdentifier(id, `${place}.tool_call_id`);
  if (bad) return bad;
  if (calls.has(id as string)) return null;
  return refusal('bad_reference', `${place}.tool_call_id`, 'the id of a tool call made before it', id);
}

/** Tool calls by native id, which may repeat: each gets an id of its own, a result pairs with the latest open one. */
export function toolLedger(prefix = '') {
  const open = new Map<string, string[]>();
  const latest = new Map<string, string>();
  const taken = new Set<string>();
  return {
    call(id: string): string {
      let own = id;
      for (let n = 2; taken.has(own); n++) own = `${id}#${n}`;
      taken.add(own);
      open.set(id, [...(open.get(id) ?? []), own]);
      latest.set(id, own);
      return `${prefix}${own}`;
    },
    result: (id: string): string => `${prefix}${open.get(id)?.pop() ?? latest.get(id) ?? id}`,
  };
}

/** Flag of a tool result that reports an error though its source does not mark the tool as failed. */
export const APPARENT_ERROR = 'apparent_error';

/** Flag of a tool result of a shape that its format does not know: it stays as it is written. */
export const UNKNOWN_RESULT = 'unknown_result';

/** The flag of a result that is neither a text nor a list of texts and typed blocks. */
export function resultFlags(content: unknown): { readonly flags?: string[] } {
  const isKnown = (one: unknown): boolean =>
    typeof one === 'string' || (isRecord(one) && typeof one.type === 'string' && one.type !== '');
  const known = content == null || typeof content === 'string' || (Array.isArray(content) && content.every(isKnown));
  return known ? {} : { flags: [UNKNOWN_RESULT] };
}

/** The rule of chats, which mark no tool as failed: the result is a JSON object whose `error` says something. */
export function hasError(output: unknown): boolean {
  if (typeof output !== 'string' || !output.trimStart().startsWith('{') || !output.includes('"error"')) return false;
  const read = parseRecord(output);
  return 'value' in read && isRecord(read.value) && Boolean(read.value.error);
}

type Choice = EventData<'generation.completed'>['choices'][number];

export type ConversationOptions = {
  readonly episodeId: string;
  /** Who wrote an assistant message; null where it is unknown. */
  readonly agentOf: (message: ChatMessage) => string | null;
  /** Tool definitions the calls were made with; undefined where the record has none. */
  readonly tools?: unknown;
  /** False where it is unknown what the model was shown; the answers have no input then. */
  readonly shown?: boolean;
  /** True where each call is a round of the environment. */
  readonly turns?: boolean;
  /** Whether the text of a result reports an error, where the format has another rule for it than `hasError`: the result is flagged. */
  readonly reportsError?: (output: string) => boolean;
  /** Number of the first message, where an episode holds several conversations; 0 without it. */
  readonly first?: number;
  /** The calls of the conversations before, which may have had the same ids. */
  readonly ledger?: ReturnType<typeof toolLedger> | undefined;
  /** What the conversation stands in: it may say why its last answer ended. */
  readonly around?: unknown;
  /** What else is known of a message: when it was sent, and of an answer its model and usage. */
  readonly about?: (message: ChatMessage) => {
    readonly at: string | null;
    /** The tokens of the answer and their log-probabilities. */
    readonly sampled?: Pick<Choice, 'token_ids' | 'logprobs'>;
  } & Partial<EventData<'generation.completed'>>;
};

/** The events of a conversation that passed `badConversation`; `seq` counts the messages. */
export function conversationDrafts(
  emit: Emitter,
  messages: readonly ChatMessage[],
  options: ConversationOptions,
): Draft[] {
  const { episodeId, agentOf, tools, turns = false, reportsError = hasError, first = 0, around, about } = options;
  const { ledger = toolLedger(), shown = true } = options;
  const drafts: Draft[] = [];
  const before: Message[] = [];
  const last = messages.findLast(({ role }) => role === 'assistant');
  let turn = 0;
  for (const [i, native] of messages.entries()) {
    const seq = first + i;
    const message = toMessage(native);
    const { role, content, ...rest } = message as Message & JsonObject;
    const { at = null, sampled, ...completed } = about?.(native) ?? {};
    const add = (name: EventName, data: JsonObject, place: readonly number[] = [], time = at): void => {
      const whole = { episode_id: episodeId, seq, ...data } as never;
      drafts.push(emit.event(name, [episodeId, seq, ...place], whole, time));
    };
    const id = `m${seq}`;
    if (role === 'assistant') {
      const call = { call_id: id, turn: turns ? turn++ : undefined, agent_id: agentOf(native) ?? undefined };
      const reason = finishReasonIn(native, native === last ? around : undefined);
      const choice = { index: 0, content, finish_reason: reason, ...sampled };
      if (shown) add('generation.requested', { ...call, input: [...before], tools }, [], null);
      const unmapped = given('unmapped', without(rest, 'tool_call_id'));
      add('generation.completed', { ...call, choices: [choice], ...completed, ...unmapped });
      for (const [index, { id: nativeId, ...asked }] of toolCallsOf(native).entries()) {
        const known = { tool_call_id: ledger.call(nativeId), index, native: { tool_call_id: nativeId } };
        add('tool.called', { ...call, ...known, ...asked }, [index]);
      }
    } else if (role === 'tool') {
      const nativeId = native.tool_call_id as string;
      const failed = native.is_error === true;
      const isApparent = !failed && typeof content === 'string' && reportsError(content);
      add('tool.returned', {
        tool_call_id: ledger.result(nativeId),
        status: failed ? 'error' : 'ok',
        output: content,
        native: { tool_call_id: nativeId },
        flags: isApparent ? [APPARENT_ERROR] : undefined,
        unmapped: without(rest, 'tool_call_id', ...(failed ? ['is_error'] : [])),
      });
    } else {
      const unmapped = without(rest, 'name');
      add('message.sent', { message_id: id, from: message.name ?? role, role, content, unmapped });
    }
    before.push(message);
  }
  return drafts;
}
