/** The way back from events to completion logs: of records that were imported to the letter, of other episodes as a log would be. */
import type { Message } from '../../events/events.ts';
import { given, isRecord, type JsonObject, without } from '../../events/json.ts';
import { fromMessage } from '../kit/chat-message.ts';
import type { RestoredEvent } from '../kit/format.ts';
import { startOf } from '../kit/native.ts';
import { withoutOurs } from '../kit/usage.ts';

/**
 * The log records of an episode: one for each model call whose request and answer are known, in the order they were answered. A call
 * whose input is unknown has none: without messages it would be a call that was shown nothing.
 */
export function writeCompletionLog(episode: readonly RestoredEvent[]): readonly unknown[] {
  const requests = requestsOf(episode);
  const taskId = startOf(episode).task_id;
  return episode
    .filter((event) => event.name === 'generation.completed')
    .sort((a, b) => order(a, b))
    .flatMap((event) => {
      const unmapped = (event.data.unmapped ?? {}) as JsonObject;
      if (unmapped.record !== undefined) return [unmapped.record];
      const asked = requests.get(event.data.call_id);
      return asked ? [recordOf(asked, event, unmapped, taskId)] : [];
    });
}

/** How many answers have no record in the log. */
export const unloggedCalls = (episode: readonly RestoredEvent[]): number =>
  episode.filter(({ name }) => name === 'generation.completed').length - writeCompletionLog(episode).length;

/** By call, of those whose input is known. */
const requestsOf = (episode: readonly RestoredEvent[]): ReadonlyMap<unknown, JsonObject> =>
  new Map(
    episode.flatMap(({ name, data }) =>
      name === 'generation.requested' && Array.isArray(data.input) ? [[data.call_id, data] as const] : [],
    ),
  );

function order(a: RestoredEvent, b: RestoredEvent): number {
  if (a.time !== b.time) return (a.time ?? '') < (b.time ?? '') ? -1 : 1;
  return Number(a.data.seq ?? 0) - Number(b.data.seq ?? 0);
}

function recordOf(asked: JsonObject, { data, time }: RestoredEvent, unmapped: JsonObject, taskId: unknown): unknown {
  const own = isRecord(asked.native) && 'format' in asked.native;
  const metadata = own
    ? (asked.native as JsonObject).metadata
    : without({ task_id: taskId ?? undefined, run_id: asked.episode_id, agent: asked.agent_id ?? undefined });
  const rests = (unmapped.choices ?? []) as JsonObject[];
  const choices = (data.choices as JsonObject[]).map((choice, i) => choiceOf(choice, rests[i] ?? {}));
  return {
    ...(unmapped.log as object | undefined),
    request: {
      ...((asked.unmapped ?? {}) as object),
      ...((asked.params ?? {}) as object),
      ...given('model', asked.model ?? undefined),
      ...given('metadata', metadata),
      messages: (asked.input as Message[]).map(fromMessage),
      ...given('tools', asked.tools),
    },
    response: {
      ...(own ? {} : { object: 'chat.completion' }),
      ...given('id', data.response_id ?? undefined),
      ...given('model', data.response_model ?? undefined),
      ...(isRecord(data.usage) ? { usage: withoutOurs(data.usage) } : {}),
      ...given('prompt_token_ids', data.prompt_token_ids ?? undefined),
      ...given('error', data.error),
      ...(time === null ? {} : { created: Math.floor(Date.parse(time) / 1000) }),
      ...(choices.length === 0 && data.error !== undefined ? {} : { choices }),
      ...(unmapped.response as object | undefined),
    },
  };
}

function choiceOf(choice: JsonObject, rest: JsonObject): unknown {
  const { message: more, ...others } = rest;
  const { logprobs, token_ids: ids } = choice;
  const tokens = Array.isArray(logprobs) ? { content: logprobs.map((logprob) => ({ logprob })) } : undefined;
  return {
    ...given('logprobs', tokens),
    ...given('finish_reason', choice.finish_reason ?? undefined),
    ...given('token_ids', ids ?? undefined),
    ...others,
    index: choice.index,
    message: fromMessage({ role: 'assistant', ...given('content', choice.content), ...(more as object | undefined) }),
  };
}
