/** The header `traceparent` (W3C Trace Context, version 00), by which a trace goes on from one program to the next. */

/** A place in a trace. `state` is the header `tracestate`, which is passed on unchanged. */
export type TracePlace = {
  /** 32 hexadecimal digits. */
  readonly traceId: string;
  /** 16 hexadecimal digits: the span that is above. */
  readonly spanId: string;
  /** False: whoever began the trace does not record it, and nobody below does. */
  readonly sampled: boolean;
  readonly state: string | null;
};

type Headers = Readonly<Record<string, string | readonly string[] | undefined>>;

/** Printable ASCII of a length that everybody has to pass on. */
const STATE = /^[\x20-\x7E]{1,512}$/;

/** Null where there is none, or one that the standard calls invalid. A later version is read as far as this one goes. */
export function placeIn({ traceparent, tracestate }: Headers): TracePlace | null {
  if (typeof traceparent !== 'string') return null;
  const [, version, traceId, spanId, flags, rest] =
    /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/.exec(traceparent) ?? [];
  if (version === undefined || version === 'ff' || (version === '00' && rest !== undefined)) return null;
  if (/^0+$/.test(traceId!) || /^0+$/.test(spanId!)) return null;
  const state = typeof tracestate === 'string' && STATE.test(tracestate) ? tracestate : null;
  return { traceId: traceId!, spanId: spanId!, sampled: (Number.parseInt(flags!, 16) & 1) === 1, state };
}

/** The headers that name this place. */
export const headersOf = ({ traceId, spanId, sampled, state }: TracePlace): Readonly<Record<string, string>> => ({
  traceparent: `00-${traceId}-${spanId}-${sampled ? '01' : '00'}`,
  ...(state === null ? {} : { tracestate: state }),
});
