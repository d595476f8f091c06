/**
 * Spans of what this process does: names, ids, counts and codes of errors, never what was recorded. None is made until `recordSpans` says
 * where they go. The place in a trace travels with the calls below it, so that requests to others can pass it on.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { createHash, randomBytes } from 'node:crypto';
import { TroupeError } from '../../../errors.ts';
import { headersOf, type TracePlace } from './traceparent.ts';

export type Attributes = Readonly<Record<string, string | number | readonly string[] | null>>;

/** Episodes that a span names at most. */
export const MOST_NAMED = 16;

/** The episodes among the keys of events, as an attribute; the first ones of many. */
export function episodesAmong(keys: Iterable<string>): Attributes {
  const episodes = new Set<string>();
  for (const key of keys) {
    if (episodes.size === MOST_NAMED) break;
    if (key.startsWith('e/')) episodes.add(key.slice('e/'.length));
  }
  return { 'troupe.episodes': [...episodes] };
}

export type Span = {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentId: string | null;
  readonly name: string;
  /** Whether it answers a request of another program. */
  readonly isServer: boolean;
  /** Milliseconds since 1970. */
  readonly began: number;
  readonly ended: number;
  readonly attributes: Attributes;
  /** Code of the error that ended it. */
  readonly error: string | null;
};

type Here = { readonly place: TracePlace | null; readonly requestId: string | null };

const here = new AsyncLocalStorage<Here>();
let take: ((span: Span) => void) | null = null;

/** From now on each span goes there; null: none is made any more. */
export function recordSpans(to: ((span: Span) => void) | null): void {
  take = to;
}

/** Runs the handling of a request below the place in a trace that it came with. */
export function duringRequest(place: TracePlace | null, requestId: string, work: () => void): void {
  if (place === null && take === null) work();
  else here.run({ place, requestId }, work);
}

/** What a request to another program carries, so that its spans come below this one; nothing outside of a trace. */
export function passedOn(): Readonly<Record<string, string>> {
  const place = here.getStore()?.place ?? null;
  return place === null ? {} : headersOf(place);
}

/** A span that was begun. It ends once; what comes after the first end counts for nothing. */
export type OpenSpan = {
  /** Runs work below it. */
  readonly run: <T>(work: () => T) => T;
  readonly end: (attributes?: Attributes, error?: unknown) => void;
};

const NOTHING: OpenSpan = { run: (work) => work(), end: () => {} };

/** Begins a span for the request that is being handled. */
export function beginSpan(name: string, attributes: Attributes = {}): OpenSpan {
  const at = here.getStore();
  const above = at?.place ?? null;
  if (take === null || above?.sampled === false) return NOTHING;
  const place: TracePlace = {
    traceId: above?.traceId ?? randomId(16),
    spanId: randomId(8),
    sampled: true,
    state: above?.state ?? null,
  };
  const began = Date.now();
  const start = performance.now();
  let isOpen = true;
  return {
    run: (work) => here.run({ place, requestId: at?.requestId ?? null }, work),
    end: (more = {}, error = null) => {
      if (!isOpen) return;
      isOpen = false;
      take?.({
        traceId: place.traceId,
        spanId: place.spanId,
        parentId: above?.spanId ?? null,
        name,
        isServer: true,
        began,
        ended: began + performance.now() - start,
        attributes: { 'troupe.request_id': at?.requestId ?? null, ...attributes, ...more },
        error: error === null ? null : codeOf(error),
      });
    },
  };
}

/**
 * The span of work that has just ended after so many seconds. Those of one job are one trace, whichever process did them: `of` is below
 * the span of its job, and `is` is that span.
 */
export function endedSpan(
  name: string,
  seconds: number,
  attributes: Attributes,
  job: { readonly of: string } | { readonly is: string } | null = null,
): void {
  if (take === null) return;
  const id = job === null ? null : 'of' in job ? job.of : job.is;
  const place = id === null ? null : placeOfJob(id);
  const ended = Date.now();
  take({
    traceId: place?.traceId ?? randomId(16),
    spanId: place !== null && job !== null && 'is' in job ? place.spanId : randomId(8),
    parentId: place !== null && job !== null && 'of' in job ? place.spanId : null,
    name,
    isServer: false,
    began: ended - 1000 * seconds,
    ended,
    attributes: id === null ? attributes : { 'troupe.job_id': id, ...attributes },
    error: null,
  });
}

/** Runs the work of a job below its span, which `endedSpan` makes at its end. */
export const duringJob = <T>(job: string, work: () => T): T =>
  take === null ? work() : here.run({ place: placeOfJob(job), requestId: null }, work);

/** Known before its span is: the same for each process that works on the job, and for each attempt. */
function placeOfJob(job: string): TracePlace {
  const id = createHash('sha256').update(job).digest('hex');
  return { traceId: id.slice(0, 32), spanId: id.slice(32, 48), sampled: true, state: null };
}

const randomId = (bytes: number): string => randomBytes(bytes).toString('hex');
const codeOf = (error: unknown): string => (error instanceof TroupeError ? error.code : 'internal');
