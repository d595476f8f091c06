/**
 * The gateway: an agent asks for a completion as it would anywhere, a policy of ours answers, and what was said is in the log before
 * the agent reads it. A log that is away never breaks a call; the answer says that it was not recorded.
 */
import { randomInt, randomUUID } from 'node:crypto';
import { ERRORS, TroupeError } from '../errors.ts';
import { decodeDraft } from '../ingest/decode.ts';
import type { Draft } from '../ingest/events.ts';
import type { SampleAnswer } from '../trainer/sampling/infer-wire.ts';
import type { Door, DoorItem } from './door.ts';
import type { AnswerBody } from './gateway-answer.ts';
import { draftsOf, type RecordedCall } from './gateway-record.ts';
import { type CallContext, type CompletionRequest, toAsk } from './gateway-request.ts';
import { type Speakers, type Spoken, unknownModel } from './speakers.ts';

export type GatewayAnswer = { readonly body: ReturnType<AnswerBody>; readonly recorded: boolean };

export type GatewayOptions = {
  readonly door: Door;
  readonly speakers: Speakers;
  /** The checkpoint with which a policy answers an episode that is bound to one; null: with what it serves. */
  readonly bound: (policy: string, episode: string | null) => Promise<string | null>;
  /** How long an answer waits for its record, in milliseconds. */
  readonly recordTimeoutMs: number;
};

/** Seeds that are drawn here for calls that name none, so that they can be repeated later. */
const MAX_SEED = 2 ** 31;

/** How one call is answered, and what ends it early: the one who asked has gone. */
export type CallOptions = {
  readonly bodyOf: AnswerBody;
  readonly signal: AbortSignal;
  /** Whether somebody else answers where nobody speaks for the policy: nothing is recorded of that here. */
  readonly passesOn?: boolean;
  /** Called with the ids of a call that is recorded, answered or failed. */
  readonly onCall: (ids: { readonly callId: string; readonly episodeId: string }) => void;
};

/**
 * One call. Throws `not_found` for an unknown model, what the sampling process says of a request it refuses, and `interrupted`
 * once `signal` is aborted: then the samples are no longer drawn, and the record says so.
 */
export async function complete(
  request: CompletionRequest,
  context: CallContext,
  { door, speakers, bound, recordTimeoutMs, bodyOf, signal, onCall, passesOn = false }: GatewayOptions & CallOptions,
): Promise<GatewayAnswer> {
  const { who } = request;
  if (who === null) throw unknownModel(request.model, await speakers.models());
  const callId = randomUUID();
  const episodeId = context.episode ?? `call-${callId}`;
  const seed = request.sampling.seed ?? randomInt(MAX_SEED);
  const requestedAt = new Date().toISOString();
  const began = performance.now();

  const keep = (outcome: RecordedCall['outcome']): Promise<boolean> => {
    const latencyMs = Math.round((performance.now() - began) * 1000) / 1000;
    const completedAt = new Date().toISOString();
    onCall({ callId, episodeId });
    const call = { callId, episodeId, context, request, seed, requestedAt, completedAt, latencyMs, outcome };
    return recorded(door, call, recordTimeoutMs);
  };

  let answer: SampleAnswer;
  try {
    const checkpoint = who.kind === 'policy' ? await bound(who.name, context.episode) : null;
    const speaker: Spoken = checkpoint === null ? who : { kind: 'checkpoint', name: checkpoint };
    answer = await speakers.speak(speaker, toAsk(request, seed), { signal });
  } catch (failed) {
    const error = signal.aborted
      ? new TroupeError('interrupted', 'Whoever asked went away before the answer.', { cause: failed })
      : failed;
    if (passesOn && isNobodyThere(error)) throw error;
    // A request that was refused is no call; one that a policy could not answer is.
    if (!(error instanceof TroupeError) || ERRORS[error.code].status >= 500) await keep({ error });
    throw error;
  }
  const body = bodyOf(answer, request, { callId, episodeId });
  return { recorded: await keep({ answer, responseId: body.id }), body };
}

/** Whether an error says that nobody speaks for a policy now. */
export const isNobodyThere = (error: unknown): boolean =>
  error instanceof TroupeError && (error.code === 'unreachable' || error.code === 'not_found');

const recorded = (door: Door, call: RecordedCall, timeoutMs: number): Promise<boolean> =>
  record(door, async () => draftsOf(call), timeoutMs);

/** Whether the log has all of these drafts, once it has them or the time is over. Never throws: recording breaks no call. */
export async function record(door: Door, drafts: () => Promise<readonly Draft[]>, timeoutMs: number): Promise<boolean> {
  const take = async () => {
    const items = (await drafts()).map(
      (draft): DoorItem => ({
        id: draft.id,
        decoded: decodeDraft(draft),
        raw: () => JSON.stringify(draft),
        place: null,
      }),
    );
    return door.take('gateway', items);
  };
  try {
    const answers = await within(take(), timeoutMs);
    return answers !== null && !answers.some(({ status }) => status === 'rejected');
  } catch {
    return false;
  }
}

/** The value, or null when it took too long. */
function within<T>(work: Promise<T>, milliseconds: number): Promise<T | null> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => resolve(null), milliseconds);
    work.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
