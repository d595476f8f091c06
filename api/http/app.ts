/** The HTTP app with all routes. It does not listen: `serve` does, and tests call `inject`. */
import { randomBytes, randomUUID } from 'node:crypto';
import fastify, { type FastifyInstance, LogController } from 'fastify';
import { TroupeError } from '../../errors.ts';
import type { Redactor } from '../../ingest/events/redact.ts';
import { mapStrings, unescapeText } from '../../ingest/events/text.ts';
import type { ArtifactStore, EventLog, IngestLedger } from '../../ingest/log/log.ts';
import type { EpisodeRule } from '../../ingest/traces/otlp/episode-rules.ts';
import type { Db } from '../../store/db/pool.ts';
import { boundCheckpoints } from '../../store/loop/play/weights.ts';
import { canaryCheckpoints } from '../../trainer/loop/comparison/canary-traffic.ts';
import type { Route } from '../gateway/model-routes.ts';
import type { PolicyServers } from '../gateway/policy-servers.ts';
import { openReplays } from '../gateway/replay/replays.ts';
import { type KeptCall, keepCall, keepWhereLight } from '../gateway/upstream/keep.ts';
import type { Price } from '../gateway/upstream/settings.ts';
import { showWhereLight } from '../gateway/upstream/shown.ts';
import { openUpstreams, type Upstreams } from '../gateway/upstream/upstreams.ts';
import { observe } from '../health/prometheus.ts';
import { duringRequest } from '../health/tracing/spans.ts';
import { placeIn } from '../health/tracing/traceparent.ts';
import { bufferedLedger } from '../ingestion/buffered-ledger.ts';
import { type Ingestion, openIngestion } from '../ingestion/ingestion.ts';
import { allOperations } from '../operations/catalogue.ts';
import type { ChangeContext, ReadContext } from '../operations/operation.ts';
import { authorise } from './auth.ts';
import { BODY_LIMIT } from './body.ts';
import type { KeyRing } from './key-ring.ts';
import { processLog } from './log.ts';
import { answerMalformed } from './malformed.ts';
import { type Offload, offloading, offloadingReads } from './offload.ts';
import { type DocumentedRoute, documented, openapiDocument } from './openapi.ts';
import { foreignOrigin, type OriginOptions, severalHosts } from './origin.ts';
import { sendProblem } from './problem.ts';
import { artifactRoutes } from './routes/artifacts.ts';
import { eventRoutes } from './routes/events.ts';
import { gatewayRoutes } from './routes/gateway.ts';
import { healthRoutes } from './routes/health.ts';
import { mcpRoutes } from './routes/mcp.ts';
import { operationContext, operationRoutes } from './routes/operations.ts';
import { otlpRoutes } from './routes/otlp.ts';
import { pageRoutes } from './routes/page.ts';
import { roundRoutes } from './routes/rounds.ts';
import { sqlRoute } from './routes/sql.ts';
import { tracingClientRoutes } from './routes/tracing-clients.ts';

/** What `buildApp` makes. */
export type App = FastifyInstance;

declare module 'fastify' {
  interface FastifyInstance {
    /** Records a call to a model server for the process that passed it on; only of an app with the gateway. */
    keepCall: (call: KeptCall) => Promise<boolean>;
  }
}

export type AppOptions = OriginOptions & {
  readonly db: Db;
  readonly log: EventLog;
  readonly book: IngestLedger;
  readonly artifacts: ArtifactStore;
  /** What the log is behind, for its counts. */
  readonly redactor?: Redactor;
  /** The sampling processes of the gateway's models. */
  readonly policyServers: PolicyServers;
  /** The servers of other models. Default: none. */
  readonly upstreams?: Upstreams;
  /** Routes from other models to policies. Default: none. */
  readonly routes?: readonly Route[];
  /** Which spans of a program belong together, besides what they say themselves. */
  readonly episodes?: readonly EpisodeRule[];
  /** Of the tokens of policies. Default: none. */
  readonly prices?: Readonly<Record<string, Price>>;
  /** Who may do what. */
  readonly keys: KeyRing;
  /** True: programs on this machine need no key, even where there are keys. */
  readonly openLoopback?: boolean;
  /** The pool for SQL over HTTP. Default: none, and it is refused. */
  readonly reader?: ReadContext['reader'];
  readonly project: string;
  /** What operations look up in the settings, and the variables that settings name. Default: nothing. */
  readonly settings?: ReadContext['settings'];
  readonly env?: ReadContext['env'];
  /** Brings the tables up to the log. Default: waits some seconds for the process that does it. */
  readonly catchUp?: ReadContext['catchUp'];
  /** Where the databases of all projects are. Default: that is not known. */
  readonly server?: ReadContext['server'];
  /** What the log outside the database records of itself. Default: it is not asked. */
  readonly topic?: ReadContext['topic'];
  /** Where the log is read, if it lies outside the database. */
  readonly source?: ChangeContext['source'];
  /** The folders of this Troupe. */
  readonly home?: ReadContext['home'];
  readonly version: string;
  /** Another thread, for requests whose bodies are large. Default: they are handled here. */
  readonly offload?: Offload;
  /** A third one, for reads with large responses. Default: they are handled here. */
  readonly reads?: Offload;
  /** Adds to the app before its routes. */
  readonly prepare?: (app: FastifyInstance) => void;
  /** Only the ingestion endpoints, health and metrics. */
  readonly ingestOnly?: boolean;
  /** Largest body in bytes, as sent and as inflated. */
  readonly bodyLimit?: number;
  /** How long a response of the gateway waits for its record, in milliseconds. Default: 10,000. */
  readonly recordTimeoutMs?: number;
  /** How many bytes of a model server's response are stored for its record. Default: 16 MiB. */
  readonly recordLimit?: number;
};

/** A request that takes longer to arrive is cut off. */
const REQUEST_TIMEOUT_MS = 120_000;
/** How long closing waits for counts that are not in the database yet. */
const CLOSE_MS = 3000;

/** Headers of every response: no type sniffing, no framing of the page, no embedding in another site. */
const HEADERS = {
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
} as const;

/** 80 random bits in at most 16 characters. An id stands in some twenty rows about its call. */
const newCallId = (): string => BigInt(`0x${randomBytes(10).toString('hex')}`).toString(36);

/** The app with its routes, ready for `inject` or `serve`. Closing it waits until everything taken is written. */
export async function buildApp(options: AppOptions): Promise<FastifyInstance> {
  const { db, log, book, version, project, bodyLimit = BODY_LIMIT } = options;
  const app = fastify({
    loggerInstance: processLog(),
    // The metrics count requests; two lines for each would add nothing.
    logController: new LogController({ disableRequestLogging: true, requestIdLogLabel: 'request_id' }),
    bodyLimit,
    requestTimeout: REQUEST_TIMEOUT_MS,
    genReqId: () => randomUUID(),
    routerOptions: { maxParamLength: 2048 },
    clientErrorHandler: answerMalformed,
    frameworkErrors: (error, request, reply) => void sendProblem(error, request, reply),
  });
  const routes: DocumentedRoute[] = [];

  app.addHook('onRoute', ({ method, url, config }) => {
    for (const one of [method].flat())
      if (one !== 'HEAD' && config?.doc) routes.push({ method: one, url, doc: config.doc });
  });
  addHooks(app, options);

  const buffered = log.partitions ? bufferedLedger(book) : null;
  const ingestion = openIngestion(log, buffered ?? book);
  app.addHook('onClose', async () => {
    await ingestion.idle();
    const left = (await buffered?.flush(CLOSE_MS)) ?? 0;
    if (left > 0) app.log.error(`The counts of ${left} requests were not stored: the database cannot be reached.`);
  });

  eventRoutes(app, ingestion, { bodyLimit });
  otlpRoutes(app, ingestion, { bodyLimit, episodes: options.episodes ?? [] });
  tracingClientRoutes(app, ingestion, { bodyLimit });
  const { ingestOnly = false, redactor = null } = options;
  if (redactor !== null) observe.redactions(redactor.found);
  healthRoutes(app, { db, log, ingestOnly, version, project });
  if (!ingestOnly) await mainRoutes(app, ingestion, { ...options, bodyLimit });
  app.get(
    '/openapi.json',
    documented({ summary: 'This document.', tag: 'health', scope: 'read', answers: { 200: { about: 'OpenAPI 3.1' } } }),
    async () => openapiDocument(routes, version),
  );
  await app.ready();
  return app;
}

/** What is true of every request and response. */
function addHooks(app: FastifyInstance, options: AppOptions): void {
  app.addHook('onRequest', async (request, reply) => {
    reply.headers({ ...HEADERS, 'x-request-id': request.id });
    // Whatever becomes of a request to the gateway, also one without a valid key, its answer has a name.
    if (request.routeOptions.config.doc?.tag === 'gateway')
      reply.headers({ 'troupe-call-id': newCallId(), 'troupe-recorded': 'false' });
    const foreign = severalHosts(request.raw.rawHeaders) ?? foreignOrigin(request.headers, options);
    if (foreign) throw foreign;
  });
  options.prepare?.(app);
  authorise(app, options);
  // Not before: what is read of a body runs outside of the request.
  app.addHook('preHandler', (request, _, done) => duringRequest(placeIn(request.headers), request.id, done));
  if (options.offload) app.addHook('preHandler', offloading(options.offload));
  if (options.reads) app.addHook('preHandler', offloadingReads(options.reads));
  app.addHook('onResponse', async (request, reply) => {
    observe.request(request.method, request.routeOptions.url ?? 'unknown', reply.statusCode, reply.elapsedTime / 1000);
  });

  // Bodies arrive as bytes: numbers and depth are looked at in the raw text, before anything is parsed.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));

  app.setReplySerializer(asSent);
  app.setErrorHandler((error, request, reply) => sendProblem(error, request, reply));
  app.setNotFoundHandler((request, reply) => {
    const [path] = request.url.split('?', 1) as [string];
    const text = `There is no route ${request.method} ${path}.`;
    return sendProblem(new TroupeError('not_found', text, { hint: routeHint(path) }), request, reply);
  });
}

/** The routes of an app that does more than ingest. */
async function mainRoutes(
  app: FastifyInstance,
  ingestion: Ingestion,
  options: AppOptions & { readonly bodyLimit: number },
): Promise<void> {
  const { db, log, artifacts, bodyLimit, offload, recordTimeoutMs = 10_000, recordLimit = 16 * 1024 * 1024 } = options;
  const { upstreams = openUpstreams([]), routes = [], prices = {}, reader = async () => null } = options;
  const keeping = { ingestion, artifacts, recordTimeoutMs, recordLimit };
  app.decorate('keepCall', (call) => keepCall(call, keeping));
  gatewayRoutes(app, {
    ...{ db, ingestion, upstreams, routes, prices, bodyLimit, recordTimeoutMs, recordLimit, offload },
    policyServers: options.policyServers,
    keys: options.keys,
    bound: boundCheckpoints(db),
    canary: canaryCheckpoints(db),
    replays: openReplays({
      ...{ db, ingestion, artifacts, recordTimeoutMs },
      redact: options.redactor?.event ?? ((event) => event),
    }),
    waitMs: log.partitions ? recordTimeoutMs : 0,
    keep: (call, size) => keepWhereLight({ call, size }, keeping, offload),
    show: (answer) => showWhereLight(answer, offload),
  });
  roundRoutes(app, db);
  const context = operationContext({ ...options, reader });
  operationRoutes(app, await allOperations(), context, { sql: sqlRoute(reader) });
  mcpRoutes(app, context);
  artifactRoutes(app, db);
  pageRoutes(app);
}

/** JSON with text as it was sent: what the database could not hold is stored under the one escape that begins with U+FFFE. */
function asSent(payload: unknown): string {
  const json = JSON.stringify(payload);
  return json.includes('\uFFFE') ? JSON.stringify(mapStrings(payload, unescapeText)) : json;
}

const CALL = /\/(?:chat\/completions|completions|responses|embeddings|models|messages)$/;

/** What to do about a path that is no route. Most often the base URL of a client lacks `/v1`, or has it where the client adds it. */
function routeHint(path: string): string {
  const call = CALL.exec(path)?.[0];
  if (call === undefined) return 'GET /openapi.json lists the routes.';
  let prefix = path.slice(0, -call.length);
  while (prefix.endsWith('/v1')) prefix = prefix.slice(0, -3);
  const [whose, where] = call === '/messages' ? ['Anthropic', 'before'] : ['OpenAI', 'with'];
  return `The route is ${prefix}/v1${call}: the base URL of a client of ${whose} ends ${where} /v1.`;
}
