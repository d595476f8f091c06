/** One request of the recorder: sent again while the server is away, and read for what became of each event. */
import { setTimeout as sleep } from 'node:timers/promises';

/** An event as it leaves: one line of JSON. */
export type EventLine = { readonly id: string; readonly type: string; readonly json: string };

export type Rejection = {
  readonly id: string;
  readonly type: string;
  readonly code: string;
  readonly field: string;
  readonly expected: string;
  readonly got: string;
};

/** Why a flush failed: events the server refused, or no answer from it. */
export class RecorderError extends Error {
  readonly rejected: readonly Rejection[];
  /** True where sending the same again later can help. */
  readonly away: boolean;

  constructor(message: string, rejected: readonly Rejection[] = [], cause?: unknown, away = false) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'RecorderError';
    this.rejected = rejected;
    this.away = away;
  }
}

type EventError = Partial<Rejection> & { readonly index?: number };

const MAX_PAUSE = 5_000;
/** A request stays under this many bytes (one larger event goes alone), far below what the server takes in one body. */
const MAX_BYTES = 2 ** 22;
const AWAY = new Set([408, 425, 429, 500, 502, 503, 504]);

/** The longest run of entries from the head of the queue that fits one request; at least one. */
export function head(queue: readonly EventLine[], most: number): readonly EventLine[] {
  let bytes = 0;
  let count = 0;
  while (count < Math.min(most, queue.length)) {
    bytes += Buffer.byteLength(queue[count]!.json) + 1;
    if (count > 0 && bytes > MAX_BYTES) break;
    count++;
  }
  return queue.slice(0, count);
}

/**
 * `pause`: the first one in milliseconds; each further pause is twice as long, up to 5 s.
 * @throws RecorderError, `away` where the server could not be reached in so many tries.
 */
export async function post(
  {
    url,
    headers,
    pause,
  }: { readonly url: URL; readonly headers: Readonly<Record<string, string>>; readonly pause: number },
  batch: readonly EventLine[],
  tries: number,
) {
  const body = `[${batch.map((entry) => entry.json).join(',')}]`;
  let problem = '';
  let cause: unknown;
  for (let attempt = 0; attempt < tries; attempt++) {
    let wait = Math.min(MAX_PAUSE, pause * 2 ** attempt);
    try {
      const response = await fetch(url, {
        method: 'POST',
        headers: { ...headers, 'content-type': 'application/cloudevents-batch+json' },
        body,
        signal: AbortSignal.timeout(60_000),
      });
      const text = await response.text();
      if (!AWAY.has(response.status)) return answerOf(response.status, text, batch, url);
      problem = `it answered ${response.status}: ${text.slice(0, 200)}`;
      const after = Number(response.headers.get('retry-after') ?? Number.NaN);
      if (after >= 0) wait = Math.min(MAX_PAUSE, Math.max(pause, after * 1000));
    } catch (error) {
      if (error instanceof RecorderError) throw error;
      const inner = (error as Error).cause;
      problem = inner instanceof Error && inner.message ? inner.message : (error as Error).message;
      cause = error;
    }
    if (attempt + 1 < tries) await sleep(wait);
  }
  throw new RecorderError(
    `${url} took none of ${batch.length} events in ${tries} tries (${problem}). They are kept: flush again when it is back.`,
    [],
    cause,
    true,
  );
}

/** Reads the per-item answer. A 2xx that does not account for every event is no acknowledgement. */
function answerOf(status: number, text: string, batch: readonly EventLine[], url: URL) {
  let value: Record<string, unknown> = {};
  try {
    value = JSON.parse(text) as Record<string, unknown>;
  } catch {
    // Not JSON: the sentence below shows it.
  }
  const { accepted, duplicates, errors } = value ?? {};
  const refused = Array.isArray(errors) ? (errors as EventError[]) : [];
  if (typeof accepted === 'number' && typeof duplicates === 'number') {
    if (accepted + duplicates + refused.length === batch.length) return { accepted, duplicates, errors: refused };
  }
  throw new RecorderError(
    `${url} answered ${status} without a result for each of ${batch.length} events: ${text.slice(0, 300)}`,
  );
}

export function rejection(batch: readonly EventLine[], error: EventError): Rejection {
  const entry = batch[error.index ?? -1];
  return {
    id: error.id ?? entry?.id ?? 'unknown',
    type: entry?.type ?? 'event',
    code: error.code ?? 'rejected',
    field: error.field ?? '',
    expected: error.expected ?? 'what the vocabulary defines',
    got: error.got ?? 'something else',
  };
}
