/** Tool calls that candidates ask for, and the results that a later request brings, paired by the conversation they stand in. */
import type { Draft } from '../events.ts';
import { hashId } from '../json.ts';
import { type ChatMessage, toMessage, toolCallsOf } from './chat-message.ts';
import { APPARENT_ERROR, hasError } from './conversation.ts';
import { type Emitter, given } from './native.ts';

/**
 * Digest of the conversation before each message, and of the whole as the last. A later request repeats the conversation, so it
 * finds by this digest the call that an earlier record made.
 */
export function prefixIds(
  episodeId: string,
  agent: string | undefined,
  messages: readonly ChatMessage[],
): readonly string[] {
  let id = hashId(episodeId, agent ?? null);
  const ids = [id];
  for (const message of messages) {
    id = hashId(id, message.role, message.content ?? null, message.tool_calls ?? null, message.tool_call_id ?? null);
    ids.push(id);
  }
  return ids;
}

const toolCallId = (prefix: string, nativeId: string, occurrence: number): string =>
  `${nativeId.slice(0, 64)}/${hashId(prefix, nativeId, occurrence).slice(0, 12)}`;

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
    return toolCallsOf(choice.message).map(({ id, type, ...asked }, index) => {
      const occurrence = seen.get(id) ?? 0;
      seen.set(id, occurrence + 1);
      const own = toolCallId(prefix, id, occurrence);
      const data = {
        episode_id,
        call_id,
        ...given('agent_id', agent_id),
        ...given('turn', turn),
        tool_call_id: taken.has(own) ? `${own}/${choice.index}` : own,
        index,
        type,
        ...asked,
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
  for (const { id } of toolCallsOf(messages[last]!)) {
    const ids = open.get(id) ?? [];
    open.set(id, [...ids, toolCallId(prefix, id, ids.length)]);
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
