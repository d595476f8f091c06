/** Requests of traces in protobuf, written by the field numbers of opentelemetry-proto. */
import type { SpanJson } from './spans.ts';

export function varint(value: number | bigint): number[] {
  const bytes: number[] = [];
  for (let rest = BigInt.asUintN(64, BigInt(value)); ; rest >>= 7n) {
    if (rest < 128n) return [...bytes, Number(rest)];
    bytes.push(Number(rest & 127n) | 128);
  }
}
export const delimited = (field: number, bytes: readonly number[]): number[] => [
  ...varint(field * 8 + 2),
  ...varint(bytes.length),
  ...bytes,
];
const utf8 = (field: number, text: string): number[] => delimited(field, [...Buffer.from(text)]);
const hex = (field: number, id: string): number[] => delimited(field, [...Buffer.from(id, 'hex')]);
function fixed64(field: number, value: string): number[] {
  const buffer = Buffer.alloc(8);
  buffer.writeBigUInt64LE(BigInt(value));
  return [...varint(field * 8 + 1), ...buffer];
}

function anyValue(value: Record<string, unknown>): number[] {
  if (typeof value.stringValue === 'string') return utf8(1, value.stringValue);
  if (typeof value.boolValue === 'boolean') return [...varint(16), Number(value.boolValue)];
  if (value.intValue !== undefined) return [...varint(24), ...varint(BigInt(String(value.intValue)))];
  const buffer = Buffer.alloc(8);
  buffer.writeDoubleLE(Number(value.doubleValue));
  return [...varint(33), ...buffer];
}
const attribute = ({ key, value }: { readonly key: string; readonly value: unknown }): number[] => [
  ...utf8(1, key),
  ...delimited(2, anyValue(value as Record<string, unknown>)),
];

const spanBytes = (span: SpanJson): number[] => [
  ...hex(1, span.traceId),
  ...hex(2, span.spanId),
  ...(span.parentSpanId === undefined ? [] : hex(4, span.parentSpanId)),
  ...utf8(5, span.name),
  ...varint(48),
  ...varint(span.kind),
  ...fixed64(7, span.startTimeUnixNano),
  ...fixed64(8, span.endTimeUnixNano),
  ...span.attributes.flatMap((one) => delimited(9, attribute(one))),
];

/** An `ExportTraceServiceRequest` of these spans, with the resource and scope of `request` in `spans.ts`. */
export function traceBytes(spans: readonly SpanJson[]): Buffer {
  const resource = delimited(1, attribute({ key: 'service.name', value: { stringValue: 'team' } }));
  const scope = [...delimited(1, utf8(1, 'made-up')), ...spans.flatMap((span) => delimited(2, spanBytes(span)))];
  return Buffer.from(delimited(1, [...delimited(1, resource), ...delimited(2, scope)]));
}
