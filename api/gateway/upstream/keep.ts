/** The record of a call to a model server. It is made from plain data, on the thread for large requests where the response is large. */
import type { TroupeError } from '../../../errors.ts';
import { parseOwn, writtenJson } from '../../../ingest/events/spelling.ts';
import type { ArtifactStore } from '../../../ingest/log/log.ts';
import { duringRequest } from '../../health/tracing/spans.ts';
import { placeIn } from '../../health/tracing/traceparent.ts';
import { within } from '../../http/within.ts';
import type { Ingestion } from '../../ingestion/ingestion.ts';
import { record } from '../gateway.ts';
import { type RawAnswer, readAnswer } from './capture.ts';
import { type UpstreamCall, upstreamDrafts } from './record.ts';

export type Keeping = {
  readonly ingestion: Ingestion;
  readonly artifacts: ArtifactStore;
  readonly recordTimeoutMs: number;
  /** How many bytes of a response are stored for its record. */
  readonly recordLimit: number;
};

/** Where the calls with large responses are recorded. */

/** A response up to this size is recorded in the process that passed it on. */
const LIGHT_BYTES = 256 * 1024;

/** A call to record, as plain data. */
export type KeptCall = Omit<UpstreamCall, 'response' | 'raw' | 'error' | 'incomplete'> & {
  readonly answer: RawAnswer;
  readonly error: Pick<TroupeError, 'code' | 'message'> | null;
  /** Texts that are never recorded. */
  readonly secrets: readonly string[];
  /** The headers that name the place of the call in its trace. */
  readonly trace: Readonly<Record<string, string>>;
  readonly requestId: string;
};

/** Records a call whose response had so many bytes, here or elsewhere; answers whether the log has it. Never throws. */
export async function keepWhereLight(
  { call, size }: { readonly call: KeptCall; readonly size: number },
  keeping: Keeping,
  elsewhere?: { readonly keep: (call: KeptCall) => Promise<boolean> },
): Promise<boolean> {
  if (elsewhere === undefined || size <= LIGHT_BYTES) return keepCall(call, keeping);
  const kept = await within(elsewhere.keep(call), keeping.recordTimeoutMs).catch(() => 'failed' as const);
  // Late for the others, but not lost: its events have the same ids, should the log have them already.
  return kept === 'failed' ? keepCall(call, keeping) : (kept ?? false);
}

/** Records a call, in its trace; answers whether the log has it. Never throws. */
export function keepCall(call: KeptCall, keeping: Keeping): Promise<boolean> {
  return new Promise((resolve) => {
    duringRequest(placeIn(call.trace), call.requestId, () => resolve(kept(call, keeping)));
  });
}

const kept = (call: KeptCall, { ingestion, artifacts, recordTimeoutMs, recordLimit }: Keeping): Promise<boolean> => {
  const drafts = async () => {
    const captured = await readAnswer(call.answer, recordLimit);
    const sent = { request: call.request, response: captured.response ?? captured.text };
    const { request, response, raw } = withoutSecrets(sent, call.secrets);
    const stored = await artifacts.put([raw]).then(
      () => raw,
      () => null,
    );
    return upstreamDrafts({
      ...call,
      request: request as UpstreamCall['request'],
      response: captured.response === null ? null : (response as UpstreamCall['response']),
      raw: stored,
      error: call.error ?? (captured.cut ? tooLong(recordLimit) : null),
      incomplete: captured.incomplete,
      firstTokenMs: captured.firstTokenMs,
      flags: [...call.flags, ...(captured.cut ? ['cut_answer'] : []), ...(captured.text ? ['unread_answer'] : [])],
    });
  };
  return record(ingestion, drafts, recordTimeoutMs);
};

const tooLong = (limit: number): Pick<TroupeError, 'code' | 'message'> => ({
  code: 'too_large',
  message: `The response has more than ${limit} bytes; it was passed on whole and recorded in part.`,
});

/** Request and response without credentials: servers repeat a key that they refuse. */
function withoutSecrets(call: { readonly request: unknown; readonly response: unknown }, secrets: readonly string[]) {
  const raw = writtenJson(call);
  if (!secrets.some((secret) => raw.includes(secret))) return { ...call, raw };
  const clean = secrets.reduce((text, secret) => text.replaceAll(secret, '***'), raw);
  return { ...(parseOwn(clean) as typeof call), raw: clean };
}
