/** Responses of OTLP/HTTP (opentelemetry-proto 1.x, docs/specification.md), in protobuf or JSON as the request was. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { problemOf, routeOf, UNEXPECTED } from '../http/problem.ts';

export const PROTOBUF = 'application/x-protobuf';
const JSON_TYPE = 'application/json';

/** How many items of a request were rejected, and why; 0 with a message is a warning. Null if there is neither. */
export type PartialSuccess = { readonly rejected: number; readonly message: string } | null;

export type Signal = 'traces' | 'logs' | 'metrics';
const REJECTED = {
  traces: 'rejectedSpans',
  logs: 'rejectedLogRecords',
  metrics: 'rejectedDataPoints',
} as const;

/** `ExportTraceServiceResponse`, `ExportLogsServiceResponse` or `ExportMetricsServiceResponse`. 64-bit integers are text in JSON. */
export function exportResponse(signal: Signal, partial: PartialSuccess, type: string): Buffer {
  if (type === PROTOBUF) {
    if (partial === null) return Buffer.alloc(0);
    return lengthDelimited(1, Buffer.concat([varintField(1, partial.rejected), text(2, partial.message)]));
  }
  const { rejected, message } = partial ?? { rejected: 0, message: '' };
  const body = { ...(rejected === 0 ? {} : { [REJECTED[signal]]: String(rejected) }), errorMessage: message };
  return Buffer.from(JSON.stringify(partial === null ? {} : { partialSuccess: body }));
}

/** Codes of google.rpc.Status by HTTP status. */
const RPC_CODES: Readonly<Record<number, number>> = { 400: 3, 403: 7, 404: 12, 413: 8, 415: 3, 503: 14 };

/** Sends an error as google.rpc.Status, in the media type of the request. Retry-After where sending the same again can help. */
export function sendStatus(error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const { status, code, detail, hint } = problemOf(error, request.id);
  if (status >= 500 && status !== 503) request.log.error({ err: error, route: routeOf(request) }, UNEXPECTED);
  if (status === 503) reply.header('retry-after', 1);
  const type = request.headers['content-type']?.startsWith(PROTOBUF) ? PROTOBUF : JSON_TYPE;
  const message = `${code}: ${detail}${hint === undefined ? '' : ` ${hint}`}`;
  const rpc = RPC_CODES[status] ?? 13;
  const body =
    type === PROTOBUF
      ? Buffer.concat([varintField(1, rpc), text(2, message)])
      : Buffer.from(JSON.stringify({ code: rpc, message }));
  return reply.code(status).header('content-type', type).send(body);
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  for (let rest = value; ; rest = Math.floor(rest / 128)) {
    if (rest < 128) return Buffer.from([...bytes, rest]);
    bytes.push((rest % 128) + 128);
  }
}

const varintField = (field: number, value: number): Buffer =>
  value === 0 ? Buffer.alloc(0) : Buffer.concat([varint(field * 8), varint(value)]);
const lengthDelimited = (field: number, bytes: Buffer): Buffer =>
  Buffer.concat([varint(field * 8 + 2), varint(bytes.length), bytes]);
const text = (field: number, value: string): Buffer => lengthDelimited(field, Buffer.from(value));
