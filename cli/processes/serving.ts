/** The app over a project, as the processes `serve` and `ingest` have it, and as the threads that handle large requests and reads for them. */
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import type { App, buildApp } from '../../api/http/app.ts';
import type { Offload } from '../../api/http/offload.ts';
import { readHosts } from '../../api/http/origin.ts';
import type { Config } from '../../config.ts';
import type { Redactor } from '../../ingest/events/redact.ts';
import { sealedKeys } from '../../store/keys/sealed-keys.ts';
import { type Context, topicOf } from '../context.ts';
import { serverOf } from '../database.ts';
import { VERSION } from '../version.ts';
import { loopbackIsOpen } from './first-key.ts';

export type ServingRole = 'ingest' | 'serve';

/** What the thread is started with. */
export type ThreadData = {
  readonly config: Config;
  readonly project: string;
  /** Address of the database, with its password. */
  readonly url: string;
  readonly embedded: boolean;
  readonly role: ServingRole;
  readonly firstKey: Uint8Array | null;
  readonly exposed: boolean;
};

export type Serving = { readonly app: App; readonly exposed: boolean; readonly close: () => Promise<void> };

type ServingOptions = {
  readonly role: ServingRole;
  readonly firstKey: Uint8Array | null;
  /** Whether every request needs a key and other machines may ask; decided by whoever listens. */
  readonly exposed: (keyNeeded: () => Promise<boolean>) => Promise<boolean>;
  readonly offload?: (exposed: boolean) => Offload;
  /** Another one, for reads whose answers are large. */
  readonly reads?: (exposed: boolean) => Offload;
  readonly prepare?: (app: App) => void;
};

export async function openServing(context: Context, options: ServingOptions): Promise<Serving> {
  const [
    { buildApp },
    { openKeyRing },
    { registeredPolicyServers },
    { connectInfer },
    { connectInferHttp },
    { openUpstreams },
    { readPrices, readUpstreams },
    { readRoutes },
    { passedOn },
  ] = await Promise.all([
    import('../../api/http/app.ts'),
    import('../../api/http/key-ring.ts'),
    import('../../api/gateway/policy-servers.ts'),
    import('../../trainer/sample/infer-client.ts'),
    import('../../trainer/sample/infer-http-client.ts'),
    import('../../api/gateway/upstream/upstreams.ts'),
    import('../../api/gateway/upstream/settings.ts'),
    import('../../api/gateway/model-routes.ts'),
    import('../../api/health/tracing/spans.ts'),
  ]);
  const { role, firstKey, prepare } = options;
  const { db, log, book, artifacts, redactor, config } = context;
  const openLoopback = loopbackIsOpen(config.loopback);
  const alone = role === 'ingest' && log.partitions !== undefined;
  const sealed = join(context.home.sealed, `keys-${context.database.project}`);
  const keys = openKeyRing(db, { firstKey, ...(alone ? { seal: sealedKeys(sealed, context.sealSecret) } : {}) });
  const exposed = await options.exposed(() => keys.required());
  const policyServers = registeredPolicyServers(db, (address) =>
    /^https?:/.test(address) ? connectInferHttp(address, config.infer_key, undefined, passedOn) : connectInfer(address),
  );
  const servers = role === 'ingest' ? [] : readUpstreams(config.upstreams, process.env);
  const routes = role === 'ingest' ? [] : readRoutes(config.routes, servers);
  const upstreams = openUpstreams(servers);
  const [offload, reads] = [options.offload?.(exposed), options.reads?.(exposed)];
  const app = await buildApp({
    db,
    log,
    book,
    artifacts,
    redactor: offload ? together(redactor, offload) : redactor,
    policyServers,
    upstreams,
    routes,
    episodes: context.episodes,
    prices: readPrices(config.prices ?? {}),
    keys,
    reader: context.reader,
    openLoopback,
    exposed,
    hosts: readHosts(config.hosts),
    project: context.database.project,
    settings: config,
    server: async () => serverOf(config),
    env: process.env,
    home: context.home,
    topic: () => topicOf(context),
    source: context.source,
    version: VERSION,
    ingestOnly: role === 'ingest',
    ...(offload ? { offload } : {}),
    ...(reads ? { reads } : {}),
    ...(prepare ? { prepare } : {}),
  } satisfies Parameters<typeof buildApp>[0]);
  const close = async (): Promise<void> => {
    await app.close();
    await Promise.all([offload?.close(), reads?.close()]);
    policyServers.close();
    upstreams.close();
  };
  return { app, exposed, close };
}

/** The redactor with what was found on the thread. */
function together(redactor: Redactor, { found }: Offload): Redactor {
  return {
    ...redactor,
    found: () => {
      const sum: Record<string, number> = { ...redactor.found() };
      for (const [name, count] of Object.entries(found())) sum[name] = (sum[name] ?? 0) + count;
      return sum;
    },
  };
}

/** Memory of a thread: 96 MB of bodies at once, as objects. Past it the thread ends and its requests are answered 503. */
const THREAD_HEAP_MB = 4096;

/** Starts a thread on the project of this process. */
export function startThread(data: ThreadData): Worker {
  return new Worker(threadProgram(), {
    workerData: data,
    execArgv: [],
    resourceLimits: { maxOldGenerationSizeMb: THREAD_HEAP_MB },
  });
}

/** In a checkout this is TypeScript, whose loader does not come with the process to a thread. */
function threadProgram(): URL {
  if (!import.meta.url.endsWith('.ts')) return new URL('./serving-thread.js', import.meta.url);
  const loader = import.meta.resolve('tsx/esm/api');
  const program = new URL('./serving-thread.ts', import.meta.url);
  const text = `import { register } from ${JSON.stringify(loader)}; register(); await import(${JSON.stringify(program)});`;
  return new URL(`data:text/javascript,${encodeURIComponent(text)}`);
}
