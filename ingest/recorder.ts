/**
 * What an agent's own program imports to say what happened. It needs nothing but Node, knows no database and no model, and can
 * be copied into another program as it stands: events are queued, sent in batches to `POST /v1/events`, and sent again while the
 * server is away. What the server refuses is reported, what it takes is durable.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { EventData, EventName } from './events.ts';

/** An event as its producer says it. `id` repeats when the same fact is sent again; `time` is null where it is unknown. */
export type RecorderDraft<N extends EventName = EventName> = {
  readonly [K in N]: {
    readonly name: K;
    readonly data: EventData<K>;
    /** Default: a random id, so give one wherever the program may say the same thing twice. */
    readonly id?: string;
    /** RFC 3339. Default: now. */
    readonly time?: string | null;
  };
}[N];

type Stamp = { readonly time?: string | null };

export type Recorder = {
  /** A problem was stated. Its event id is made of the task id: stating it again in the same words changes nothing. */
  readonly task: (data: EventData<'task.defined'>, stamp?: Stamp) => void;
  /** An attempt began. */
  readonly episode: (data: EventData<'episode.started'>, stamp?: Stamp) => void;
  /** Something was said about a target after the fact. */
  readonly feedback: (data: EventData<'feedback.recorded'>, stamp?: Stamp) => void;
  /** An attempt ended. */
  readonly finish: (data: EventData<'episode.finished'>, stamp?: Stamp) => void;
  /** Any event of the vocabulary. */
  readonly event: (draft: RecorderDraft) => void;
  /**
   * Answers when everything said so far is durable. Throws `RecorderError`: with `rejected` when the server refused events (the
   * others are kept and nothing is sent again), without when it could not be reached (everything unsent stays for the next flush).
   */
  readonly flush: () => Promise<Flushed>;
};

/** What became of the events since the flush before. `duplicates` were known to the server already. */
export type Flushed = { readonly sent: number; readonly accepted: number; readonly duplicates: number };

export type Rejected = {
  readonly id: string;
  readonly type: string;
  readonly code: string;
  readonly field: string;
  readonly expected: string;
  readonly got: string;
};

/** Why a flush failed: events the server refused, or no answer from it. */
export class RecorderError extends Error {
  readonly rejected: readonly Rejected[];

  constructor(message: string, rejected: readonly Rejected[] = [], cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'RecorderError';
    this.rejected = rejected;
  }
}

export type RecorderOptions = {
  /** Where Troupe listens, such as `http://127.0.0.1:7717`. */
  readonly baseUrl: string;
  /** Who speaks: the CloudEvents source of every event. */
  readonly source: string;
  /** An API key with the scope ingest, where the server asks for one. */
  readonly apiKey?: string;
  /** Sent with every request: an Authorization header, say. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Events in one request. */
  readonly batchSize?: number;
  /** How often one request is tried before the flush fails. */
  readonly tries?: number;
  /** The first pause in milliseconds before a request is sent again; each further pause is twice as long, up to 5 s. */
  readonly pause?: number;
};

type Entry = { readonly id: string; readonly type: string; readonly json: string };
type Answer = {
  readonly accepted: number;
  readonly duplicates: number;
  readonly errors: readonly (Partial<Rejected> & { readonly index?: number })[];
};

const MAX_PAUSE = 5_000;
/** A request stays under this many bytes (one larger event goes alone), far below what the server takes in one body. */
const MAX_BYTES = 2 ** 22;
const AWAY = new Set([408, 425, 429, 500, 502, 503, 504]);

/** One event as the CloudEvents JSON object that the server reads; also a line of an event file. */
export function envelope(source: string, draft: RecorderDraft): object {
  const time = draft.time === undefined ? new Date().toISOString() : draft.time;
  return {
    specversion: '1.0',
    id: draft.id ?? randomUUID(),
    source,
    type: `troupe.${draft.name}.v1`,
    ...(time === null ? {} : { time }),
    datacontenttype: 'application/json',
    data: draft.data,
  };
}

/** A recorder for one source. Batches leave by themselves when they are full; `flush` sends the rest and waits. */
export function createRecorder(options: RecorderOptions): Recorder {
  const { baseUrl, source, batchSize = 250, tries = 8, pause = 100 } = options;
  const headers = { ...(options.apiKey && { authorization: `Bearer ${options.apiKey}` }), ...options.headers };
  const url = new URL('v1/events', baseUrl.endsWith('/') ? baseUrl : `${baseUrl}/`);
  const queue: Entry[] = [];
  const rejected: Rejected[] = [];
  let counts = { sent: 0, accepted: 0, duplicates: 0 };
  let flushing = 0;
  let running: Promise<unknown> | null = null;

  /** Sends from the head of the queue; an entry leaves it only when the server has answered for it. */
  async function drain(): Promise<void> {
    while (queue.length >= (flushing > 0 ? 1 : batchSize)) {
      const batch = head(queue, batchSize);
      const answer = await post(url, headers, batch, tries, pause);
      queue.splice(0, batch.length);
      for (const error of answer.errors) rejected.push(rejection(batch, error));
      counts = {
        sent: counts.sent + batch.length,
        accepted: counts.accepted + answer.accepted,
        duplicates: counts.duplicates + answer.duplicates,
      };
    }
  }

  /** One request at a time, so that what was said first arrives first. Answers what went wrong, or null. */
  const run = async (): Promise<unknown> => {
    running ??= drain()
      .then(
        () => null,
        (problem: unknown) => problem,
      )
      .finally(() => {
        running = null;
      });
    return running;
  };

  const event = (draft: RecorderDraft): void => {
    const value = envelope(source, draft) as { readonly id: string; readonly type: string };
    queue.push({ id: value.id, type: value.type, json: JSON.stringify(value) });
    if (queue.length >= batchSize && running === null) void run();
  };

  const flush = async (): Promise<Flushed> => {
    flushing++;
    try {
      while (queue.length > 0 || running !== null) {
        const problem = await run();
        if (problem !== null) throw problem;
      }
    } finally {
      flushing--;
    }
    const done = counts;
    counts = { sent: 0, accepted: 0, duplicates: 0 };
    const refused = rejected.splice(0);
    const [first] = refused;
    if (first) {
      throw new RecorderError(
        `${refused.length} of ${done.sent} events were refused. The first is ${first.type} ${first.id}: ` +
          `${first.field || 'the event'} must be ${first.expected}, it is ${first.got} (${first.code}).`,
        refused,
      );
    }
    return done;
  };

  return {
    task: (data, stamp) => event({ ...stamp, name: 'task.defined', id: `task/${data.task_id}`, data }),
    episode: (data, stamp) => event({ ...stamp, name: 'episode.started', id: `${data.episode_id}/started`, data }),
    feedback: (data, stamp) => event({ ...stamp, name: 'feedback.recorded', id: data.feedback_id, data }),
    finish: (data, stamp) => event({ ...stamp, name: 'episode.finished', id: `${data.episode_id}/finished`, data }),
    event,
    flush,
  };
}

/** The longest run of entries from the head of the queue that fits one request; at least one. */
function head(queue: readonly Entry[], most: number): readonly Entry[] {
  let bytes = 0;
  let count = 0;
  while (count < Math.min(most, queue.length)) {
    bytes += Buffer.byteLength(queue[count]!.json) + 1;
    if (count > 0 && bytes > MAX_BYTES) break;
    count++;
  }
  return queue.slice(0, count);
}

async function post(
  url: URL,
  headers: Readonly<Record<string, string>>,
  batch: readonly Entry[],
  tries: number,
  pause: number,
): Promise<Answer> {
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
  );
}

/** Reads the per-item answer. A 2xx that does not account for every event is no acknowledgement. */
function answerOf(status: number, text: string, batch: readonly Entry[], url: URL): Answer {
  let value: Record<string, unknown> = {};
  try {
    value = JSON.parse(text) as Record<string, unknown>;
  } catch {
    // Not JSON: the sentence below shows it.
  }
  const { accepted, duplicates, errors } = value ?? {};
  const refused = Array.isArray(errors) ? (errors as Answer['errors']) : [];
  if (typeof accepted === 'number' && typeof duplicates === 'number') {
    if (accepted + duplicates + refused.length === batch.length) return { accepted, duplicates, errors: refused };
  }
  throw new RecorderError(
    `${url} answered ${status} and did not say what became of each of ${batch.length} events: ${text.slice(0, 300)}`,
  );
}

function rejection(batch: readonly Entry[], error: Answer['errors'][number]): Rejected {
  const entry = batch[error.index ?? -1];
  return {
    id: error.id ?? entry?.id ?? 'unknown',
    type: entry?.type ?? 'event',
    code: error.code ?? 'rejected',
    field: error.field ?? '',
    expected: error.expected ?? 'what the vocabulary says',
    got: error.got ?? 'something else',
  };
}
