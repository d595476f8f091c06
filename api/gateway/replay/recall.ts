/** Messages and response of an earlier call, read back from the log: `previous_response_id` of the Responses API. */
import { setTimeout as sleep } from 'node:timers/promises';
import { got, TroupeError } from '../../../errors.ts';
import { isRecord, type JsonObject } from '../../../ingest/events/json.ts';
import { type ChatMessage, fromMessage } from '../../../ingest/formats/kit/chat-message.ts';
import type { Db } from '../../../store/db/pool.ts';
import { recordedCalls } from '../../../store/loop/play/source.ts';

export type RecallOptions = {
  /** How long a call may be on its way from the log to the database, in milliseconds; 0 where the log is the database. */
  readonly waitMs: number;
};

const FIELD = 'previous_response_id';
const LOOK_EVERY_MS = 100;

/**
 * The conversation up to the response of this id and with it, without that call's instructions, which are not carried over. It is
 * looked up in the episode of the call that names it, and in the response's own episode if it was a call without one. Throws `usage`
 * if it is not found.
 */
export async function recall(
  db: Pick<Db, 'query'>,
  id: string,
  { episode, waitMs }: RecallOptions & { readonly episode: string | null },
): Promise<readonly ChatMessage[]> {
  const callId = /^resp_([0-9a-z-]{8,36})$/.exec(id)?.[1];
  if (callId === undefined)
    throw refused(id, 'the id of a response of a policy', 'Responses of model servers are not stored here.');
  const until = performance.now() + waitMs;
  let found = await lookUp(db, callId, episode);
  while (found === null && performance.now() < until) {
    await sleep(LOOK_EVERY_MS);
    found = await lookUp(db, callId, episode);
  }
  if (found === null)
    throw refused(id, 'the id of a recorded response of the same episode', 'Name its episode in Troupe-Episode.');
  const { input, params, answer } = found;
  const messages = isRecord(params) && params.instructions === true ? input.slice(1) : input;
  return [...messages, answer].map((message) => fromMessage(message) as ChatMessage);
}

async function lookUp(db: Pick<Db, 'query'>, callId: string, episode: string | null) {
  for (const of of [`call-${callId}`, ...(episode === null ? [] : [episode])]) {
    const call = (await recordedCalls(db, of, [callId])).get(callId);
    if (call === undefined) continue;
    const { input, params } = call.requested;
    const [choice] = Array.isArray(call.completed.choices) ? call.completed.choices : [];
    if (!isRecord(choice) || !Array.isArray(input)) return null;
    return { input: input as JsonObject[], params, answer: { role: 'assistant', content: choice.content } };
  }
  return null;
}

const refused = (id: string, expected: string, hint: string): TroupeError =>
  new TroupeError('usage', `${FIELD} should be ${expected}; ${got(id)} is none.`, {
    field: FIELD,
    expected,
    got: got(id),
    hint,
  });
