/** Tool calls that candidates ask for, and the results that a later request brings, paired by the conversation they stand in. */
import type { Draft } from '../../events/events.ts';
import { given, hashId } from '../../events/json.ts';
import { type ChatMessage, type ChatToolCall, toMessage, toolCallsOf } from './chat-message.ts';
import { APPARENT_ERROR, hasError } from './conversation.ts';
import type { Emitter } from './native.ts';

/**
 * Digest of the conversation before each message, and of the whole as the last. A later request repeats the conversation, so it
 * finds by this digest the call that an earlier record made, where the id of the call alone does not name it.
 */
export function prefixIds(episodeId: string, messages: readonly ChatMessage[]): readonly string[] {
  let id = hashId(episodeId);
  const ids = [id];
  for (const message of messages) {
    id = prefixWith(id, message);
    ids.push(id);
  }
  return ids;
}

/** By message, the digest that was asked for last: calls of one conversation share its messages, and ask for the same digests. */
const DIGESTS = new WeakMap<ChatMessage, { readonly before: string; readonly digest: string }>();

function prefixWith(before: string, message: ChatMessage): string {
  const known = DIGESTS.get(message);
  if (known?.before === before) return known.digest;
  const { role, content = null, tool_calls: calls = null, tool_call_id: id = null } = message;
  const digest = hashId(before, role, content, calls, id);
  DIGESTS.set(message, { before, digest });
  return digest;
}

/**
 * The id of a tool call, the same for who made it and for who brings its result, whichever agent that is. An id that a server drew names its
 * call alone, whatever of the conversation was cut off since; one that counts needs the conversation before it, and what was asked.
 */
export function toolCallId(episodeId: string, prefix: string, call: ChatToolCall, occurrence = 0): string {
  const { id, name, arguments: asked, arguments_raw: raw } = call;
  const hash = isDrawn(id, name)
    ? hashId(episodeId, id, occurrence)
    : hashId(prefix, id, occurrence, name, asked ?? raw);
  return `${id.slice(0, 64)}/${hash.slice(0, 12)}`;
}

/**
 * Whether an id was drawn at random, as those of OpenAI, Anthropic and vLLM are. Others count and come again in the next conversation:
 * `call_0`, or `functions.search:0` of Kimi.
 */
const isDrawn = (id: string, name: string): boolean =>
  id
    .replace(name, ' ')
    .split(/[^A-Za-z0-9]+/)
    .some((run) => /^(?=.*\d)(?=.*[A-Za-z]).{8,}$|^(?=.*[a-z])(?=.*[A-Z]).{20,}$/.test(run));

/** The call that the tools belong to. */
export type Call = {
  readonly episode_id: string;
  readonly call_id: string;
  readonly agent_id?: string;
  readonly turn?: number;
};

/** The tool calls of all candidates. Where two candidates use the same native id, the later one's number is part of its own. */
export function toolDrafts(
  emit: Emitter,
  call: Call,
  choices: readonly { readonly index: number; readonly message: ChatMessage }[],
  prefix: string,
  time: string | null,
): Draft[] {
  const taken = new Set<string>();
  const { episode_id, call_id, agent_id, turn } = call;
  return choices.flatMap((choice) => {
    const seen = new Map<string, number>();
    return toolCallsOf(choice.message).map((asked, index) => {
      const { id, ...rest } = asked;
      const occurrence = seen.get(id) ?? 0;
      seen.set(id, occurrence + 1);
      const own = toolCallId(episode_id, prefix, asked, occurrence);
      const data = {
        episode_id,
        call_id,
        ...given('agent_id', agent_id),
        ...given('turn', turn),
        tool_call_id: taken.has(own) ? `${own}/${choice.index}` : own,
        index,
        ...rest,
        native: { tool_call_id: id, choice: choice.index },
      };
      taken.add(own);
      return emit.event('tool.called', [episode_id, call_id, choice.index, index], data, time);
    });
  });
}

/** The results in a request that no earlier request can have held: those after its last assistant message. */
export function resultDrafts(
  emit: Emitter,
  call: Call,
  messages: readonly ChatMessage[],
  prefixes: readonly string[],
): Draft[] {
  const last = messages.findLastIndex((message) => message.role === 'assistant');
  if (last < 0) return [];
  const prefix = prefixes[last]!;
  const open = new Map<string, string[]>();
  for (const asked of toolCallsOf(messages[last]!)) {
    const ids = open.get(asked.id) ?? [];
    open.set(asked.id, [...ids, toolCallId(call.episode_id, prefix, asked, ids.length)]);
  }
  return messages.slice(last + 1).flatMap((message) => {
    const nativeId = message.role === 'tool' ? message.tool_call_id : undefined;
    const own = typeof nativeId === 'string' ? open.get(nativeId)?.pop() : undefined;
    if (own === undefined) return [];
    const failed = message.is_error === true;
    const { content } = toMessage(message);
    return [
      emit.state('tool.returned', {
        episode_id: call.episode_id,
        tool_call_id: own,
        status: failed ? 'error' : 'ok',
        ...given('output', content),
        native: { tool_call_id: nativeId },
        ...(!failed && hasError(content) ? { flags: [APPARENT_ERROR] } : {}),
      }),
    ];
  });
}
