/** Scores and prompts inside the events of CrewAI. */
import type { Draft, Message } from '../../events/events.ts';
import { given, hashId, isRecord, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { badMessage, type ChatMessage, toMessage } from '../kit/chat-message.ts';
import type { Emitter } from '../kit/native.ts';

/** An event of a batch that can be read: its order is a number, its data an object. */
export type CrewEvent = {
  readonly type: string;
  readonly id: string;
  readonly parent: string | null;
  readonly sequence: number;
  readonly time: string | null;
  readonly data: Readonly<Record<string, unknown>>;
  readonly agent: string | null;
};

/** A score of the crew or of an agent; null for a result that holds no number. */
export function scoreDraft(
  emit: Emitter,
  episodeId: string,
  { id, type, data, agent, time, sequence }: CrewEvent,
): Draft | null {
  const whole = type === 'crew_test_result';
  const stated = whole ? data.quality : isRecord(data.score) ? data.score.score : data.score;
  const value = typeof stated === 'string' && /^-?\d+(\.\d+)?$/.test(stated) ? Number(stated) : stated;
  if (typeof value !== 'number' && typeof value !== 'boolean') return null;
  const name = whole ? 'quality' : isIdentifier(data.metric_category) ? data.metric_category : 'evaluation';
  const feedback = isRecord(data.score) ? data.score.feedback : undefined;
  return emit.event(
    'feedback.recorded',
    [episodeId, id],
    {
      feedback_id: hashId(episodeId, id),
      target:
        whole || agent === null
          ? { kind: 'episode', id: episodeId, episode_id: episodeId }
          : { kind: 'agent', id: agent, episode_id: episodeId },
      kind: 'score',
      name,
      value,
      by: 'model',
      seq: sequence,
      ...(typeof feedback === 'string' ? { explanation: feedback } : {}),
      ...given('unmapped', without(data, 'type', 'agent_role', 'quality', 'metric_category', 'score')),
    },
    time,
  );
}

/** A prompt, or chat messages; null where neither can be read. */
export function inputOf(messages: unknown): Message[] | null {
  if (typeof messages === 'string') return [{ role: 'user', content: messages }];
  if (!Array.isArray(messages) || messages.some((message) => badMessage(message, '') !== null)) return null;
  return messages.map((message) => toMessage(message as ChatMessage));
}
