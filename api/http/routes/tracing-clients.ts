/**
 * Ingestion endpoints of other products, at the paths and with the responses that their clients expect, for clients whose server can be configured
 * but not the path: Langfuse, LangSmith and the OpenAI Agents SDK.
 */
import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import { isRecord } from '../../../ingest/events/json.ts';
import { cutRequest, type LiveFormat } from '../../../ingest/formats/traces/live-traces.ts';
import type { Ingestion } from '../../ingestion/ingestion.ts';
import { type ItemRefusal, sentenceOf, takeItems } from '../../ingestion/trace-items.ts';
import { BODY_LIMIT } from '../body.ts';
import { JSON_TYPE, readJson } from '../checked-body.ts';
import { documented } from '../openapi.ts';
import { BodyRefused } from '../problem.ts';

type Request = Readonly<Record<string, unknown>>;

type ClientEndpoint = {
  readonly method: 'POST' | 'PATCH';
  readonly url: string;
  readonly about: string;
  readonly format: LiveFormat;
  /** The request in the shape of the format; `id` is that of the path. */
  readonly read?: (body: Request, id: string) => unknown;
  /** What a body that is a list is a list of. */
  readonly list?: string;
  /** The response that the client expects. */
  readonly answer: (
    rejected: readonly ItemRefusal[],
    body: Request,
  ) => { readonly status: number; readonly body: unknown };
};

const asItIs = (body: Request): unknown => body;
const errorsOf = (rejected: readonly ItemRefusal[]) =>
  rejected.flatMap((one, index) => (one === null ? [] : [{ index, ...one, message: sentenceOf(one) }]));
/** The client accepts any 2xx; rejected items are listed in the body. */
const plain = (status: number) => (rejected: readonly ItemRefusal[]) => {
  const errors = errorsOf(rejected);
  return errors.length === 0 ? { status, body: {} } : { status: 207, body: { errors } };
};

const ENDPOINTS: readonly ClientEndpoint[] = [
  {
    method: 'POST',
    url: '/v1/traces/ingest',
    about: 'Take traces of the OpenAI Agents SDK.',
    format: 'openai-agents',
    answer: plain(200),
  },
  {
    method: 'POST',
    url: '/api/public/ingestion',
    about: 'Take batches of the Langfuse SDK (version 3 and before).',
    format: 'langfuse',
    answer: (rejected, body) => {
      const idOf = (i: number): unknown => (body.batch as readonly { readonly id?: unknown }[])[i]?.id ?? null;
      return {
        status: 207,
        body: {
          successes: rejected.flatMap((one, i) => (one === null ? [{ id: idOf(i), status: 201 }] : [])),
          errors: errorsOf(rejected).map(({ index, message }) => ({ id: idOf(index), status: 400, message })),
        },
      };
    },
  },
  {
    method: 'POST',
    url: '/api/public/scores',
    about: 'Take scores of the Langfuse SDK, one or a list.',
    format: 'langfuse',
    list: 'scores',
    read: (body) => (Array.isArray(body.scores) ? body : { scores: [body] }),
    answer: (rejected, body) => {
      const errors = errorsOf(rejected);
      const isList = Array.isArray(body.scores);
      if (errors.length === 0)
        return isList ? { status: 202, body: { message: 'Accepted' } } : { status: 200, body: { id: body.id ?? null } };
      const counts = { accepted: rejected.length - errors.length, rejected: errors.length };
      return { status: isList ? 207 : 400, body: { ...counts, errors } };
    },
  },
  {
    method: 'POST',
    url: '/runs/batch',
    about: 'Take runs of the LangSmith client, new ones and updates.',
    format: 'langsmith',
    answer: plain(202),
  },
  {
    method: 'POST',
    url: '/runs',
    about: 'Take one run of the LangSmith client.',
    format: 'langsmith',
    read: (run) => ({ post: [run] }),
    answer: plain(202),
  },
  {
    method: 'PATCH',
    url: '/runs/:id',
    about: 'Take an update of a run of the LangSmith client.',
    format: 'langsmith',
    read: (patch, id) => ({ patch: [{ ...patch, id }] }),
    answer: plain(202),
  },
  {
    method: 'POST',
    url: '/feedback',
    about: 'Take feedback of the LangSmith client.',
    format: 'langsmith',
    answer: plain(200),
  },
];

export function tracingClientRoutes(
  app: FastifyInstance,
  ingestion: Ingestion,
  { bodyLimit }: { readonly bodyLimit: number },
): void {
  for (const { method, url, about, format, list, read = asItIs, answer } of ENDPOINTS) {
    app.route<{ Params: { readonly id?: string } }>({
      method,
      url,
      ...documented({
        summary: about,
        tag: 'events',
        scope: 'ingest',
        body: { types: [...JSON_TYPE], schema: Type.Object({}, { additionalProperties: true }) },
        answers: { 200: { about: 'items that the response does not list are durable' } },
      }),
      handler: async (request, reply) => {
        const { value } = await readJson(request, bodyLimit, { longIntegers: true });
        const body = list !== undefined && Array.isArray(value) ? { [list]: value } : value;
        if (!isRecord(body)) throw notOne('a JSON object', 'another JSON value');
        const items = cutRequest(format, read(body, request.params.id ?? ''));
        if (items === null) throw notOne(`a request of ${format}`, 'another object');
        const answered = answer(await takeItems(ingestion, format, items), body);
        return reply.code(answered.status).send(answered.body);
      },
    });
  }
  app.get(
    '/info',
    documented({
      summary: 'Make the LangSmith client send batches of JSON.',
      tag: 'events',
      scope: 'ingest',
      answers: { 200: { about: 'how to send' } },
    }),
    async () => ({ version: '0', batch_ingest_config: INGEST }),
  );
}

/**
 * The client sends plain JSON batches where it may not use multipart. The Python client (0.15) reads how it may scale its threads
 * without a default of its own and sends nothing at all where these are missing; the numbers are its defaults.
 */
const INGEST = {
  use_multipart_endpoint: false,
  size_limit: 100,
  size_limit_bytes: BODY_LIMIT / 2,
  scale_up_nthreads_limit: 32,
  scale_up_qsize_trigger: 200,
  scale_down_nempty_trigger: 4,
};

const notOne = (expected: string, got: string): BodyRefused =>
  new BodyRefused({ code: 'bad_shape', field: '', expected, got });
