/** Model calls that are recorded one by one, each with the conversation a model was shown, its answer, and the tokens of both as sampled. */
import { got, type Refusal } from '../../../errors.ts';
import type { Content, Draft, EventData, Message } from '../../events/events.ts';
import { given, isRecord, type JsonObject, without } from '../../events/json.ts';
import { parseWritten, writtenArguments } from '../../events/spelling.ts';
import { isIdentifier } from '../../events/text.ts';
import { badMessage, type ChatMessage, toMessage } from './chat-message.ts';
import { prefixIds, resultDrafts, toolDrafts } from './chat-tools.ts';
import type { Emitter } from './native.ts';

export type RolloutCall = {
  readonly episodeId: string;
  readonly callId: string;
  readonly agentId: string;
  readonly turn: number;
  readonly input: readonly ChatMessage[];
  /** Null where the call failed. */
  readonly answer: ChatMessage | null;
  readonly finish?: unknown;
  readonly sampled?: {
    readonly prompt?: unknown;
    readonly ids?: unknown;
    /** One a token of `ids`. */
    readonly logprobs?: unknown;
    readonly mask?: readonly (0 | 1)[] | undefined;
  };
  readonly asked?: Partial<EventData<'generation.requested'>>;
  readonly completed?: Partial<EventData<'generation.completed'>>;
  readonly unmapped?: Record<string, unknown> | undefined;
  readonly askedAt?: string | null;
  readonly completedAt?: string | null;
};

export const isTokenIds = (value: unknown): value is number[] =>
  Array.isArray(value) && value.every((id) => Number.isSafeInteger(id) && id >= 0 && id < 2 ** 31);

export const isTokens = (value: unknown): value is number[] => isTokenIds(value) && value.length > 0;

const SHARED = new WeakMap<ChatMessage, Message>();

/** The same message for each call that is shown it, or a long rollout would fill the memory. */
function sharedMessage(native: ChatMessage): Message {
  const known = SHARED.get(native);
  if (known) return known;
  const message = toMessage(native);
  SHARED.set(native, message);
  return message;
}

/** The request, the answer with its tokens, the tools it asked for, and the results that stand in its input. */
export function rolloutCallDrafts(emit: Emitter, call: RolloutCall): Draft[] {
  const { episodeId, callId, agentId, turn, input, answer, sampled = {}, askedAt = null, completedAt = null } = call;
  const about = { episode_id: episodeId, call_id: callId, agent_id: agentId, turn };
  const place = [episodeId, callId];
  const { ids, logprobs, prompt } = sampled;
  const fits = isTokens(ids) && Array.isArray(logprobs) && logprobs.length === ids.length && logprobs.every(isReal);
  const left = Array.isArray(logprobs) && logprobs.length > 0 && !fits ? { logprobs } : {};
  const unmapped = without({ ...call.unmapped, ...left });
  const usage = {
    input_tokens: isTokens(prompt) ? prompt.length : undefined,
    output_tokens: isTokens(ids) ? ids.filter((_, i) => sampled.mask?.[i] !== 0).length : undefined,
  };
  const choice = {
    index: 0,
    content: answer ? (toMessage(answer).content as Content) : undefined,
    finish_reason: typeof call.finish === 'string' ? call.finish : undefined,
    token_ids: isTokens(ids) ? ids : undefined,
    logprobs: fits ? logprobs : undefined,
    loss_mask: sampled.mask?.includes(0) ? [...sampled.mask] : undefined,
  };
  const answered = {
    ...about,
    choices: answer ? [choice] : [],
    prompt_token_ids: isTokens(prompt) ? prompt : undefined,
    usage: without(usage),
    flags: 'logprobs' in left ? ['logprobs_mismatch'] : undefined,
    ...call.completed,
    ...given('unmapped', unmapped),
  };
  const prefixes = prefixIds(episodeId, input);
  return [
    emit.event('generation.requested', place, { ...about, input: input.map(sharedMessage), ...call.asked }, askedAt),
    emit.event('generation.completed', place, answered, completedAt),
    ...(answer ? toolDrafts(emit, about, [{ index: 0, message: answer }], prefixes.at(-1)!, completedAt) : []),
    ...resultDrafts(emit, about, input, prefixes),
  ];
}

/** Results of tools that no later call was shown: those at the end of a whole conversation. */
export const lastResultDrafts = (
  emit: Emitter,
  { episodeId, callId, agentId, turn }: Pick<RolloutCall, 'episodeId' | 'callId' | 'agentId' | 'turn'>,
  messages: readonly ChatMessage[],
): Draft[] =>
  resultDrafts(
    emit,
    { episode_id: episodeId, call_id: callId, agent_id: agentId, turn },
    messages,
    prefixIds(episodeId, messages),
  );

export const isReal = (value: unknown): value is number => typeof value === 'number' && Math.abs(value) <= 3.4e38;

/**
 * Chat messages; tool calls may be written flat, `{id?, name, arguments}`, or as JSON text, and a result without an id answers the oldest
 * open call. The first that is none is the refusal.
 */
export function chatMessages(native: unknown, field: string): { messages: ChatMessage[] } | { refusal: Refusal } {
  const list = typeof native === 'string' ? [{ role: 'user', content: native }] : native;
  if (!Array.isArray(list))
    return { refusal: { code: 'bad_type', field, expected: 'a list of messages', got: got(native) } };
  const messages: ChatMessage[] = [];
  let open: unknown[] = [];
  for (const [i, one] of list.entries()) {
    const given = isRecord(one) ? chatMessage(one, i) : one;
    const message = isAnonymous(given) && open.length > 0 ? { ...given, tool_call_id: open[0] } : given;
    const bad = badMessage(message, `${field}[${i}]`);
    if (bad) return { refusal: bad };
    const { role, tool_calls: calls, tool_call_id: answered } = message as ChatMessage;
    if (role === 'assistant') open = ((calls ?? []) as JsonObject[]).map(({ id }) => id);
    else if (role === 'tool') open = open.filter((id) => id !== answered);
    messages.push(message as ChatMessage);
  }
  return { messages };
}

const isAnonymous = (message: unknown): message is JsonObject =>
  isRecord(message) && message.role === 'tool' && message.tool_call_id == null;

function chatMessage(native: JsonObject, place: number): JsonObject {
  const { tool_calls: calls, reasoning, name, ...rest } = native;
  const asked = Array.isArray(calls) ? calls.map((call: unknown, i) => chatCall(parsed(call), `m${place}/${i}`)) : [];
  return {
    ...rest,
    ...(name == null ? {} : { name }),
    ...(asked.length > 0 ? { tool_calls: asked } : {}),
    ...(typeof reasoning === 'string' && reasoning !== '' && rest.reasoning_content == null
      ? { reasoning_content: reasoning }
      : {}),
  };
}

/** A tool call that is JSON text, as in the columns of a data set; any other as it is. */
function parsed(call: unknown): unknown {
  if (typeof call !== 'string') return call;
  const read = parseWritten(call);
  return 'value' in read ? read.value : call;
}

/** A tool call as the chat API writes it; without an id it is named by its place. */
export function chatCall(call: unknown, place: string): unknown {
  if (!isRecord(call)) return call;
  const id = isIdentifier(call.id) ? call.id : place;
  if (isRecord(call.function) || isRecord(call.custom)) return { ...call, id };
  const { name, arguments: asked } = call;
  return {
    id,
    type: 'function',
    function: { name, arguments: typeof asked === 'string' ? asked : writtenArguments(asked ?? {}) },
  };
}
