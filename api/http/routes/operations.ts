/** The routes of all operations: input from path, query and body; the output as it is. */
import { Readable } from 'node:stream';
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteOptions } from 'fastify';
import { type TObject, Type } from 'typebox';
import { TroupeError } from '../../../errors.ts';
import { createRedactor } from '../../../ingest/events/redact.ts';
import { originalsIn } from '../../../store/log/originals.ts';
import { waitProjected } from '../../../store/projecting/positions.ts';
import { homeAt } from '../../../store/server/home.ts';
import { requestOperation } from '../../operations/job.ts';
import { nounOf, OUTPUT_HEADER } from '../../operations/names.ts';
import { type ChangeContext, type Operation, shownSchema } from '../../operations/operation.ts';
import { inputOf, perform } from '../../operations/perform.ts';
import { performForBytes, performOnBytes } from '../../operations/result-bytes.ts';
import { contentField, isJob, overHttp, type Route, resultField, routeOf } from '../../operations/route.ts';
import { JSON_TYPE, readJson } from '../checked-body.ts';
import type { Identity } from '../key-ring.ts';
import { documented, type RouteDoc } from '../openapi.ts';
import { queryValues } from '../query.ts';
import { untilGone } from '../until-gone.ts';
import { refuseBeyond } from './events.ts';

type ServerContext = Pick<ChangeContext, 'db' | 'log' | 'artifacts' | 'book' | 'project'> & Partial<ChangeContext>;

const Requested = Type.Object({ job_id: Type.String() });
const IDEMPOTENCY = {
  'idempotency-key': 'a text of yours; asked again with it, the answer is the job of the first time',
};

/** Another process projects. One that does not catch up within this does not run, and then the answer says so. */
const CATCH_UP_MS = 10_000;

/** The context of operations over HTTP. */
export const operationContext = (served: ServerContext): ChangeContext => ({
  reader: async () => null,
  inProject: (ask) => ask(served.db),
  settings: { notify: null, judge: null, close_after: 1800 },
  home: homeAt('.troupe'),
  version: '',
  server: async () => {
    throw new TroupeError('not_found', 'Other projects are not known here.');
  },
  source: null,
  // A client waits for its answer and asks again itself.
  patiently: (work) => work(),
  progress: () => {},
  say: () => {},
  workOnRun: null,
  isHere: false,
  signal: new AbortController().signal,
  env: {},
  redactor: createRedactor([]),
  episodes: [],
  topic: async () => undefined,
  catchUp: () => waitProjected(served.db, { log: served.log, timeoutMs: CATCH_UP_MS }),
  ...served,
  by: 'http',
  now: () => new Date(),
  originals: originalsIn(served.db),
});

/** How an operation is answered whose output is not one JSON document. */
export type OwnAnswer = Partial<RouteDoc> & {
  readonly answer: (input: Readonly<Record<string, unknown>>, request: FastifyRequest, reply: FastifyReply) => unknown;
};

export function operationRoutes(
  app: FastifyInstance,
  operations: readonly Operation[],
  context: ChangeContext,
  own: Readonly<Record<string, OwnAnswer>> = {},
): void {
  const closing = new AbortController();
  app.addHook('preClose', async () => closing.abort());
  for (const declared of operations) {
    const operation = overHttp(declared);
    if (operation === null) continue;
    const written = resultField(declared);
    const route = routeOf(declared);
    const { answer, ...ownDoc } = own[declared.name] ?? {};
    const rest = withoutPath(operation.input, route);
    const asked = operation.live ? { ...context, catchUp: async () => {} } : context;
    const isContent = contentField(declared) !== undefined;
    const handled: RouteOptions = {
      method: route.method,
      url: route.url,
      ...documented({ ...docOf(declared, operation, route, rest), ...ownDoc }),
      handler: async (request, reply) => {
        const isBody = route.method === 'POST' && !isContent;
        const given = isBody ? await bodyOf(request) : queryValues(request.query, rest);
        const by = request.identity?.key ?? asked.by;
        const input = { ...(given as object), ...inPathOf(operation, request.params as Record<string, string>) };
        if (answer !== undefined) return answer(inputOf(operation, input), request, reply);
        if (isContent) {
          const context = { ...asked, by, log: within(request.identity, asked.log), signal: untilGone(reply) };
          const content = (request.body as Readable | undefined) ?? Readable.from([]);
          return performOnBytes(declared, context, { allowed: operation, given: input, content });
        }
        if (written !== undefined) {
          const context = { ...asked, by, signal: untilGone(reply) };
          const { output, result } = await performForBytes(declared, context, { allowed: operation, given: input });
          return reply.type(typeOf(written.kind)).header(OUTPUT_HEADER, asHeader(output)).send(Readable.from(result));
        }
        if (!isJob(declared)) {
          const signal = AbortSignal.any([untilGone(reply), closing.signal]);
          return perform(operation, { ...asked, by, signal }, input);
        }
        const key = request.headers['idempotency-key'];
        const job = await requestOperation({ ...asked, by }, operation, { input, key: key?.toString() });
        return reply
          .code(202)
          .header('location', `/v1/jobs/${encodeURIComponent(job.job_id)}`)
          .send(job);
      },
    };
    if (!isContent) app.route(handled);
    else
      void app.register(async (streaming) => {
        streaming.removeAllContentTypeParsers();
        streaming.addContentTypeParser('*', (_request, body, done) => done(null, body));
        streaming.route(handled);
      });
  }
}

/** The log, for events for which the key has the scope. */
const within = (identity: Identity | null, log: ChangeContext['log']): ChangeContext['log'] => ({
  ...log,
  append: async (events) => {
    refuseBeyond(identity, events);
    return log.append(events);
  },
});

const typeOf = (kind: string): string => (kind === 'results' ? 'application/x-tar' : 'application/octet-stream');

/** JSON in the characters that a header may have. */
const asHeader = (output: unknown): string =>
  JSON.stringify(output).replace(/[^\x20-\x7e]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);

/** The field of the path, a number where it should be one. */
const inPathOf = ({ input }: Operation, params: Readonly<Record<string, string>>): Readonly<Record<string, unknown>> =>
  Object.fromEntries(
    Object.entries(params).map(([name, text]) => {
      const { type } = input.properties[name] as { readonly type?: string };
      return [name, type === 'integer' && /^\d+$/.test(text) ? Number(text) : text];
    }),
  );

/** An operation without further input needs no body. */
const bodyOf = async (request: FastifyRequest): Promise<unknown> =>
  (request.body as Buffer | undefined)?.length ? (await readJson(request)).value : {};

function withoutPath({ properties, ...rest }: TObject, { inPath }: Route): TObject {
  const required: readonly string[] = rest.required ?? [];
  const left = Object.entries(properties).filter(([name]) => name !== inPath);
  return {
    ...Type.Object(Object.fromEntries(left), { additionalProperties: false }),
    required: required.filter((name) => name !== inPath),
  } as TObject;
}

function docOf(declared: Operation, operation: Operation, { method, inPath }: Route, rest: TObject): RouteDoc {
  const { name, about, notes, scope, output, examples, large } = operation;
  const written = resultField(declared);
  const schema = shownSchema(rest);
  const bodies = examples.map((example) =>
    Object.fromEntries(Object.entries(example).filter(([field]) => field !== inPath)),
  );
  return {
    operationId: name,
    summary: `${about[0]!.toUpperCase()}${about.slice(1)}.`,
    ...(notes === undefined ? {} : { description: notes }),
    tag: nounOf(operation),
    scope,
    ...(contentField(declared) !== undefined
      ? { query: schema, body: { types: ['application/octet-stream'], schema: Type.Unknown() } }
      : method === 'POST'
        ? {
            body: {
              types: [...JSON_TYPE],
              schema,
              examples: bodies,
              required: (schema.required as readonly string[]).length > 0,
            },
          }
        : { query: schema }),
    ...(large === undefined ? {} : { large }),
    ...(isJob(declared) ? { headers: IDEMPOTENCY } : {}),
    answers: isJob(declared)
      ? { 202: { about: 'a job; its result is the output', schema: Requested } }
      : written === undefined
        ? { 200: { about: 'the output', schema: output } }
        : {
            200: {
              about: `the result; the output is in the header ${OUTPUT_HEADER}, as JSON`,
              type: typeOf(written.kind),
            },
          },
  };
}
