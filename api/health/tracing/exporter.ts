/** Sends spans to a receiver of OpenTelemetry, some seconds later and together. It holds nobody up: what cannot be sent is dropped in the end, and counted. */
import { exportRequest } from './otlp.ts';
import type { Attributes, Span } from './spans.ts';

export type Receiver = {
  /** Where requests go, such as http://127.0.0.1:4318/v1/traces. */
  readonly url: string;
  /** Sent as a bearer token; null: none. */
  readonly key: string | null;
};

export type ExporterOptions = {
  readonly resource: Attributes;
  readonly version: string;
  /** Called with a sentence once nothing arrives, and once it does again. */
  readonly say: (sentence: string) => void;
  readonly everyMs?: number;
};

export type Exporter = {
  readonly take: (span: Span) => void;
  /** Sends what is left, once. */
  readonly close: () => Promise<void>;
};

const EVERY_MS = 5000;
const AT_ONCE = 512;
/** Spans that wait at most: some megabytes. */
const MOST_WAITING = 4096;
const PATIENCE_MS = 10_000;
/** A process that ends waits no longer for a receiver. */
const LAST_PATIENCE_MS = 2000;
/** What the protocol calls worth another attempt (OTLP 1.x, failures). */
const RETRIED = [429, 502, 503, 504];
/** Below a trace that nobody records: a receiver that is this project makes no spans of its own for it. */
const NOT_RECORDED = '00-00000000000000000000000000000001-0000000000000001-00';

export function openExporter(
  { url, key }: Receiver,
  { resource, version, say, everyMs = EVERY_MS }: ExporterOptions,
): Exporter {
  let waiting: Span[] = [];
  let dropped = 0;
  let failing = false;
  let sending: Promise<void> = Promise.resolve();

  const post = async (spans: readonly Span[], patienceMs: number): Promise<'arrived' | 'refused' | 'later'> => {
    try {
      const answer = await fetch(url, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          traceparent: NOT_RECORDED,
          ...(key === null ? {} : { authorization: `Bearer ${key}` }),
        },
        body: JSON.stringify(exportRequest(spans, resource, version)),
        redirect: 'manual',
        signal: AbortSignal.timeout(patienceMs),
      });
      await answer.body?.cancel();
      if (answer.ok) return 'arrived';
      reportFailure(`the receiver answered ${answer.status}`);
      return RETRIED.includes(answer.status) ? 'later' : 'refused';
    } catch (error) {
      const { code } = ((error as Error).cause ?? {}) as { readonly code?: string };
      reportFailure(code === undefined ? 'the receiver did not answer' : `the receiver could not be reached (${code})`);
      return 'later';
    }
  };
  const reportFailure = (why: string): void => {
    if (!failing) say(`Traces do not arrive: ${why}. Look at the settings traces and traces_key; work goes on.`);
    failing = true;
  };
  const flush = async (patienceMs: number): Promise<void> => {
    while (waiting.length > 0) {
      const spans = waiting.slice(0, AT_ONCE);
      const became = await post(spans, patienceMs);
      if (became === 'later') return;
      // What came meanwhile may have pushed some of them out.
      const sent = new Set(spans);
      waiting = waiting.filter((span) => !sent.has(span));
      if (became === 'refused') dropped += spans.length;
      else if (failing) {
        say(`Traces arrive again; ${dropped} spans were dropped meanwhile.`);
        failing = false;
        dropped = 0;
      }
    }
  };
  const next = (patienceMs: number): Promise<void> => {
    sending = sending.then(() => flush(patienceMs));
    return sending;
  };
  let isSending = false;
  const timer = setInterval(async () => {
    if (isSending) return;
    isSending = true;
    await next(PATIENCE_MS);
    isSending = false;
  }, everyMs).unref();
  return {
    take: (span) => {
      waiting.push(span);
      if (waiting.length > MOST_WAITING) {
        waiting.shift();
        dropped += 1;
      }
    },
    close: async () => {
      clearInterval(timer);
      await Promise.race([
        next(LAST_PATIENCE_MS),
        new Promise((resolve) => setTimeout(resolve, LAST_PATIENCE_MS).unref()),
      ]);
    },
  };
}
