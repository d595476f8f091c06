/** OTLP as plain values: spans and log records with their attributes by name, ids in lower-case hex, times as text. */

export type Attributes = Readonly<Record<string, unknown>>;

export type SpanEvent = { readonly name: string; readonly time: string | null; readonly attributes: Attributes };

export type OtlpSpan = {
  /** The episode that the resource names for all its traces, or the id of the trace. */
  readonly traceId: string;
  readonly spanId: string;
  /** Null for the root of a trace. */
  readonly parentId: string | null;
  readonly name: string;
  /** RFC 3339 with nanoseconds; null where the request has 0. */
  readonly start: string | null;
  readonly end: string | null;
  readonly attributes: Attributes;
  readonly events: readonly SpanEvent[];
  /** Message of a status of code 2 (error), which may be empty; null for any other status. */
  readonly error: string | null;
  readonly scope: string;
  readonly resource: Attributes;
  /** The span with its resource and scope as a request of its own would hold it, in the one form of {@link normal}. */
  readonly native: Native;
};

export type OtlpLog = {
  readonly traceId: string | null;
  readonly spanId: string | null;
  readonly name: string;
  readonly time: string | null;
  readonly body: unknown;
  readonly attributes: Attributes;
  readonly native: Native;
};

export type Native = {
  readonly resource?: unknown;
  readonly scope?: unknown;
  readonly span?: Readonly<Record<string, unknown>>;
  readonly log?: Readonly<Record<string, unknown>>;
};
