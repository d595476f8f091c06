/**
 * The gateway: a policy of this project completes an agent's request, and the call is in the log before the agent gets the response.
 * An unreachable log never fails a call; a header of the response shows that it was not recorded.
 */
import { randomInt } from 'node:crypto';
import { ERRORS, TroupeError } from '../../errors.ts';
import { decodeDraft } from '../../ingest/events/decode.ts';
import type { Draft } from '../../ingest/events/events.ts';
import { nextTime } from '../../ingest/recorder/next-time.ts';
import { patiently } from '../../store/db/patience.ts';
import type { BoundCheckpoint } from '../../store/loop/play/weights.ts';
import type { LiveCall } from '../../trainer/loop/comparison/canary-traffic.ts';
import type { OnPart, SampleAnswer } from '../../trainer/sample/infer-wire.ts';
import { beginSpan } from '../health/tracing/spans.ts';
import { within } from '../http/within.ts';
import type { IngestItem, Ingestion } from '../ingestion/ingestion.ts';
import { type AnswerBody, emptyAnswer } from './answer.ts';
import { type OwnModel, type PolicyServers, unknownModel } from './policy-servers.ts';
import { draftsOf, type PartialTexts, type RecordedCall } from './record.ts';
import { type CallContext, type CompletionRequest, toAsk } from './request.ts';
import type { Price } from './upstream/settings.ts';

export type GatewayOptions = {
  readonly ingestion: Ingestion;
  readonly policyServers: PolicyServers;
  /** The checkpoint that serves a policy in an episode bound to one; null: the weights that it serves now. */
  readonly bound: BoundCheckpoint;
  /** The checkpoint of a canary's candidate for a live call of its share; null for any other. */
  readonly canary: (call: LiveCall) => Promise<string | null>;
  /** Of policies that processes of the project serve. */
  readonly prices: Readonly<Record<string, Price>>;
  /** How long a response waits for its record, in milliseconds. */
  readonly recordTimeoutMs: number;
};

/** Calls without a seed get a random one below this, so that they can be repeated later. */
const MAX_SEED = 2 ** 31;

/** A call before it is answered; without an episode it is one of its own. */
export type Call = { readonly callId: string; readonly episodeId: string; readonly context: CallContext };

/** How one call is answered; `signal` is aborted when the client disconnects. */
export type CallOptions = {
  readonly bodyOf: AnswerBody;
  readonly signal: AbortSignal;
  /** Whether a fallback answers if no process serves the policy: then nothing is recorded here. */
  readonly passesOn?: boolean;
  /** Called with new text of a choice while it is sampled, and with the body as it was before any text. */
  readonly onText?: (choice: number, text: string, before: ReturnType<AnswerBody>) => void;
  /** Called before a call fails that was recorded, or should have been. */
  readonly onFailed: (recorded: boolean) => void;
};

/**
 * One call. Throws `not_found` for an unknown model, the sampling process's own error for a request that it refuses, and
 * `interrupted` once `signal` is aborted: then sampling stops, and the record has that error.
 */
export async function complete(
  request: CompletionRequest,
  { callId, episodeId, context }: Call,
  {
    ingestion,
    policyServers,
    bound,
    canary,
    prices,
    recordTimeoutMs,
    bodyOf,
    signal,
    onFailed,
    onText,
    passesOn = false,
  }: GatewayOptions & CallOptions,
): Promise<{ readonly body: ReturnType<AnswerBody>; readonly recorded: boolean }> {
  const { who } = request;
  if (who === null) throw unknownModel(request.model, await policyServers.models());
  const seed = request.sampling.seed ?? randomInt(MAX_SEED);
  const now = new Date();
  const requestedAt = nextTime();
  const ids = { callId, episodeId, created: Math.floor(now.getTime() / 1000) };
  const began = performance.now();
  const span = beginSpan('gateway', { ...callIds(callId, episodeId), 'gen_ai.request.model': request.model });

  const keep = async (outcome: RecordedCall['outcome']): Promise<boolean> => {
    const latencyMs = Math.round((performance.now() - began) * 1000) / 1000;
    const completedAt = nextTime();
    const price = who.kind === 'policy' ? (prices[who.name] ?? null) : null;
    const call = { callId, episodeId, context, request, seed, requestedAt, completedAt, latencyMs, price, outcome };
    const kept = await span.run(() => recorded(ingestion, call, recordTimeoutMs));
    span.end({}, 'error' in outcome ? outcome.error : null);
    return kept;
  };

  let before: ReturnType<AnswerBody> | null = null;
  let sent: PartialTexts | undefined;
  const onPart: OnPart = ({ choice, text }, begun) => {
    before ??= bodyOf(emptyAnswer(begun, request.sampling.n), request, ids);
    sent ??= { begun, texts: new Map() };
    sent.texts.set(choice, (sent.texts.get(choice) ?? '') + text);
    onText?.(choice, text, before);
  };

  let answer: SampleAnswer;
  try {
    const ask = toAsk(request, seed);
    const sample = (serving: OwnModel) =>
      span.run(() => policyServers.sample(serving, ask, { signal, ...(onText ? { onPart } : {}) }));
    const checkpoint = who.kind === 'policy' ? await bound(who.name, context.episode) : null;
    const tried =
      who.kind === 'policy' && checkpoint === null
        ? await canary({ policy: who.name, episode: episodeId, group: context.group })
        : null;
    if (checkpoint !== null) answer = await sample({ kind: 'checkpoint', name: checkpoint });
    else if (tried === null) answer = await sample(who);
    // A live call does not fail for a candidate that is not loaded yet, or not any more.
    else
      answer = await sample({ kind: 'checkpoint', name: tried }).catch((error: unknown) => {
        // What was streamed so far cannot be taken back.
        if (!isUnserved(error) || before !== null) throw error;
        return sample(who);
      });
  } catch (failed) {
    const error = signal.aborted
      ? new TroupeError('interrupted', 'The client disconnected before the end of the response.', { cause: failed })
      : failed;
    if (passesOn && before === null && isUnserved(error)) throw error;
    // A refused request is not recorded as a call; one that a policy failed to answer is.
    if (!(error instanceof TroupeError) || ERRORS[error.code].status >= 500) onFailed(await keep({ error, sent }));
    span.end({}, error);
    throw error;
  }
  const body = bodyOf(answer, request, ids);
  return { recorded: await keep({ answer, responseId: body.id }), body };
}

/** Attributes of the span of a call. */
export const callIds = (callId: string, episodeId: string) => ({
  'troupe.call_id': callId,
  'troupe.episode': episodeId,
});

/** Whether an error means that no process serves the policy now. */
export const isUnserved = (error: unknown): boolean =>
  error instanceof TroupeError && (error.code === 'unreachable' || error.code === 'not_found');

const recorded = (ingestion: Ingestion, call: RecordedCall, timeoutMs: number): Promise<boolean> =>
  record(ingestion, async () => draftsOf(call), timeoutMs);

/** Whether the log stored all of these drafts within the timeout. Never throws: a failure to record must not fail a call. */
export async function record(
  ingestion: Ingestion,
  drafts: () => Promise<readonly Draft[]>,
  timeoutMs: number,
): Promise<boolean> {
  const given = AbortSignal.timeout(timeoutMs);
  const take = async () => {
    const items = (await drafts()).map(
      (draft): IngestItem => ({
        id: draft.id,
        decoded: decodeDraft(draft),
        raw: () => JSON.stringify(draft),
        place: null,
      }),
    );
    // Its events have ids of their own: taken twice, they are there once.
    return patiently(() => ingestion.take('gateway', items), { signal: given, mostMs: 1000 });
  };
  try {
    const answers = await within(take(), timeoutMs);
    return answers !== null && !answers.some(({ status }) => status === 'rejected');
  } catch {
    return false;
  }
}
