/**
 * OTLP over HTTP: POST /v1/traces and /v1/logs, protobuf or JSON. The response comes when spans are durable; a span that cannot be read
 * is listed in `partial_success` and the others are stored. Metrics are rejected and gRPC is refused, with the setting to use instead.
 */
import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import { TroupeError } from '../../../errors.ts';
import { canonicalJson } from '../../../ingest/events/json.ts';
import { utf8 } from '../../../ingest/events/text.ts';
import { cutOtlp, type LiveItem } from '../../../ingest/formats/traces/live-traces.ts';
import { decodeOtlp, type Otlp, parseOtlpJson } from '../../../ingest/traces/otlp/decode.ts';
import { type EpisodeRule, withEpisodes } from '../../../ingest/traces/otlp/episode-rules.ts';
import { dataPointsIn } from '../../../ingest/traces/otlp/metrics.ts';
import { protobufToJson } from '../../../ingest/traces/otlp/protobuf.ts';
import type { Native } from '../../../ingest/traces/otlp/span.ts';
import type { Ingestion } from '../../ingestion/ingestion.ts';
import { exportResponse, type PartialSuccess, PROTOBUF, type Signal, sendStatus } from '../../ingestion/otlp-answer.ts';
import { sentenceOf, takeItems } from '../../ingestion/trace-items.ts';
import { inflate, mediaType } from '../body.ts';
import { documented } from '../openapi.ts';
import { BodyRefused } from '../problem.ts';

const TYPES = [PROTOBUF, 'application/json'] as const;
const MEMBER = { traces: 'resourceSpans', logs: 'resourceLogs', metrics: 'resourceMetrics' } as const;

/** Sent to exporters as a partial success, which no exporter retries. */
const NO_METRICS =
  'Troupe takes traces and logs, no metrics. Set OTEL_METRICS_EXPORTER=none, or send metrics elsewhere by OTEL_EXPORTER_OTLP_METRICS_ENDPOINT.';

/**
 * Characters of resources and scopes that the spans of one request may repeat: each span is checked, hashed and stored with its own, so
 * a request of 2 MB with a large resource and a thousand small spans would be gigabytes. Exporters send up to 512 spans with a few kB.
 */
export const MAX_REPEATED = 128 * 1024 * 1024;

/** Paths of clients that are configured with the base path of another product. */
const BASES = ['', '/otel', '/otlp', '/api/public/otel'];

const DOCUMENTED = {
  traces: { summary: 'Take OpenTelemetry traces (OTLP/HTTP).', about: 'what partial_success does not name is durable' },
  logs: { summary: 'Take OpenTelemetry logs (OTLP/HTTP).', about: 'what partial_success does not name is durable' },
  metrics: {
    summary: 'Reject OpenTelemetry metrics, with the setting to use instead.',
    about: 'partial_success rejects all data points; exporters do not try again',
  },
} as const;

type OtlpOptions = { readonly bodyLimit: number; readonly episodes: readonly EpisodeRule[] };

export function otlpRoutes(app: FastifyInstance, ingestion: Ingestion, { bodyLimit, episodes }: OtlpOptions): void {
  for (const base of BASES) {
    for (const signal of ['traces', 'logs', 'metrics'] as const) {
      const { summary, about } = DOCUMENTED[signal];
      app.post<{ Body: Buffer | undefined }>(
        `${base}/v1/${signal}`,
        {
          ...documented({
            summary,
            tag: 'events',
            scope: 'ingest',
            body: { types: [...TYPES], schema: Type.Object({ [MEMBER[signal]]: Type.Array(Type.Unknown()) }) },
            answers: { 200: { about, type: PROTOBUF } },
          }),
          errorHandler: (error, request, reply) => void sendStatus(error, request, reply),
        },
        async (request, reply) => {
          refuseGrpc(request.headers['content-type']);
          const type = mediaType(request.headers, TYPES);
          const bytes = await inflate(request.body ?? Buffer.alloc(0), request.headers, bodyLimit);
          const partial =
            signal === 'metrics'
              ? { rejected: dataPointsIn(readBody(bytes, type, signal)), message: NO_METRICS }
              : await take(ingestion, signal, readRequest(bytes, type, signal, episodes));
          return reply
            .code(200)
            .header('content-type', type)
            .send(exportResponse(signal, partial, type));
        },
      );
    }
  }
}

function refuseGrpc(type = ''): void {
  if (!type.toLowerCase().startsWith('application/grpc')) return;
  throw new TroupeError('unsupported_media', 'Troupe takes OTLP over HTTP, no gRPC.', {
    hint: 'Set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf.',
  });
}

/** A body as JSON. Throws `BodyRefused` where it is none. */
function readBody(bytes: Uint8Array, type: (typeof TYPES)[number], signal: Signal): unknown {
  const read = type === PROTOBUF ? protobufToJson(bytes, signal) : readJson(bytes);
  if ('refusal' in read) throw new BodyRefused(read.refusal);
  return read.value;
}

/** The items of a request. Throws `BodyRefused` where it is none. */
function readRequest(
  bytes: Uint8Array,
  type: (typeof TYPES)[number],
  signal: Exclude<Signal, 'metrics'>,
  episodes: readonly EpisodeRule[],
): Otlp {
  // A request without spans or log records is valid.
  const value = readBody(bytes, type, signal) as Record<string, unknown> | null;
  const isEmpty = value !== null && typeof value === 'object' && !Array.isArray(value) && value[MEMBER[signal]] == null;
  if (isEmpty && Object.keys(value).length === 0) return { spans: [], logs: [], refusals: [] };
  const list = value?.[MEMBER[signal]];
  if (!Array.isArray(list)) {
    throw new BodyRefused({
      code: 'bad_shape',
      field: MEMBER[signal],
      expected: `an OTLP request of ${signal}: {"${MEMBER[signal]}": […]}`,
      got: 'something else',
    });
  }
  return repeatingLittle(decodeOtlp(withEpisodes({ [MEMBER[signal]]: list }, episodes)));
}

/** The request without the items whose resources and scopes would be repeated too often. */
function repeatingLittle({ spans, logs, refusals }: Otlp): Otlp {
  let left = MAX_REPEATED;
  const refused: Otlp['refusals'][number][] = [];
  const fits = ({ native: { resource, scope, ...own } }: { readonly native: Native }): boolean => {
    left -= [resource, scope].reduce<number>(
      (sum, one) => sum + (one === undefined ? 0 : canonicalJson(one).length),
      0,
    );
    if (left >= 0) return true;
    const expected = `at most ${MAX_REPEATED} characters of resources and scopes, counted for each span and log record; send fewer at once`;
    refused.push({ code: 'too_large', field: 'resource', expected, got: 'more', raw: JSON.stringify(own) });
    return false;
  };
  return { spans: spans.filter(fits), logs: logs.filter(fits), refusals: [...refusals, ...refused] };
}

function readJson(bytes: Uint8Array): ReturnType<typeof parseOtlpJson> {
  const text = utf8(bytes);
  return text === null
    ? { refusal: { code: 'bad_json', field: '', expected: 'UTF-8', got: 'other bytes' } }
    : parseOtlpJson(text);
}

async function take(ingestion: Ingestion, signal: Signal, otlp: Otlp): Promise<PartialSuccess> {
  const kept = cutOtlp(otlp);
  const silent = kept.filter(({ drafts }) => drafts.length === 0).length;
  const items: LiveItem[] = [...kept, ...otlp.refusals.map((refusal) => ({ refusal }))];
  const rejected = (await takeItems(ingestion, 'otlp', items)).filter((one) => one !== null);
  const [first] = rejected;
  if (first) return { rejected: rejected.length, message: sentenceOf(first) };
  if (silent === 0) return null;
  const message = `${silent} ${signal === 'logs' ? 'log records' : 'spans'} that concern neither models nor agents were not stored`;
  return { rejected: 0, message };
}
