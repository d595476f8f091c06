/**
 * One process a role. They meet only in the log and the tables; killing any of them loses nothing: each resumes from its position, its
 * claim or its checkpoint. What a role needs is loaded when it runs.
 */
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { isLoopback } from '../api/origin.ts';
import { EXIT, TroupeError } from '../errors.ts';
import type { LogSource } from '../ingest/log/source.ts';
import { patiently } from '../store/db/patience.ts';
import { firstOf, type NotNull, query, rowsOf, sql, typed } from '../store/db/query.ts';
import { fitsSocket } from '../store/db/sockets.ts';
import { type Handler, handBack, runJobs } from '../store/jobs/jobs.ts';
import { registerProcess } from '../store/jobs/processes.ts';
import type { MethodAsked } from '../store/judging/judge.ts';
import { waitProjected } from '../store/projecting/positions.ts';
import { runProjector } from '../store/projecting/projector.ts';
import type { Context } from './context.ts';
import { takeFirstKey } from './first-key.ts';
import { parseMethods } from './methods-asked.ts';
import { say, tellTrouble } from './output.ts';
import { processId } from './process-id.ts';
import type { ServingRole } from './serving.ts';
import { VERSION } from './version.ts';
import { pause, untilAborted } from './waiting.ts';

export type RoleOptions = {
  readonly policy?: string;
  readonly model?: string;
  readonly signal: AbortSignal;
  /** Told once it works, with where it answers if it does. */
  readonly onReady: (facts: { readonly role: string; readonly address?: string }) => void;
};
type Role = (context: Context, options: RoleOptions) => Promise<void>;

/** How long work under way may go on once the process was asked to stop; then it is handed back. */
const GRACE_MS = 5000;

export const ROLES: Readonly<Record<string, Role>> = {
  ingest: (context, options) => answer(context, options, 'ingest'),
  serve: (context, options) => answer(context, options, 'serve'),
  project: async ({ db, source }, { signal, onReady }) => {
    const leave = await registerProcess(db, { processId: processId('project'), role: 'project' });
    onReady({ role: 'project' });
    // What was in the database before there was another log, or is written to it beside, is projected all the same.
    const stop = new AbortController();
    const own = runProjector(db, {
      signal: AbortSignal.any([signal, stop.signal]),
      onTrouble: tellTrouble('The projector'),
    });
    try {
      await (source === null ? own : follow(db, source, signal));
    } finally {
      stop.abort();
      await own;
    }
    await leave();
  },
  judge: async (context, options) => {
    const [{ storeHandlers }, { annotateHandler }, { chatEndpoint }] = await Promise.all([
      import('../store/jobs/handlers.ts'),
      import('../store/attribution/annotate.ts'),
      import('./chat-endpoint.ts'),
    ]);
    const annotate = annotateHandler(context, {
      askOf: (spec) => chatEndpoint(spec, process.env),
      wait: pause,
      signal: options.signal,
      caughtUp: (db) => waitProjected(db, { log: context.log }),
    });
    const settings = { datasets: context.home.datasets, codeVersion: VERSION };
    const standing = judgeAlways(context, await standingMethods(context.config.judge), options.signal);
    await working(context, 'judge', { ...storeHandlers(context, settings), annotate }, options);
    await standing;
  },
  work: async (context, options) => {
    const { trainerHandlers } = await import('../trainer/jobs/handlers.ts');
    const settings = {
      checkpoints: context.home.checkpoints,
      threads: context.config.threads,
      codeVersion: VERSION,
    };
    const closing = closeAlways(context, options.signal);
    await working(context, 'work', trainerHandlers(context, settings), options);
    await closing;
  },
  infer,
};

async function follow(db: Context['db'], source: LogSource, signal: AbortSignal): Promise<void> {
  const { followLog } = await import('../store/log/follow.ts');
  await followLog(db, source, { signal, onTrouble: tellTrouble('The projector') });
}

async function answer(context: Context, { signal, onReady }: RoleOptions, role: ServingRole): Promise<void> {
  const [{ openServing, startThread }, { openOffload }, { serve }] = await Promise.all([
    import('./serving.ts'),
    import('../api/offload.ts'),
    import('../api/serve.ts'),
  ]);
  const { db, log, config, database } = context;
  const firstKey = takeFirstKey(process.env);
  const { app, exposed, close } = await openServing(context, {
    role,
    firstKey,
    exposed: async (keyNeeded) => !isLoopback(config.host) && (await keyNeeded()),
    // Read when the thread starts: a database that was away has its address only then.
    offload: (exposed) =>
      openOffload(() => {
        const { project, url, embedded } = database;
        return startThread({ config, project, url, embedded, role, firstKey, exposed });
      }),
  });
  await log.verify?.().catch((error: unknown) => say(`Nothing is taken yet: ${(error as Error).message}`));
  const { url } = await serve(app, { host: config.host, port: config.port, exposed });
  const registering = patiently(() => registerProcess(db, { processId: processId(role), role, address: url }), {
    signal,
  });
  // Ingest on a log of its own works while the database is away.
  if (!(role === 'ingest' && log.partitions !== undefined)) await registering;
  const leave = registering.catch(() => async () => {});
  say(`Troupe answers at ${url}`);
  onReady({ role, address: url });
  await Promise.race([untilAborted(signal), context.failed]);
  // Whoever still reads a stream is cut off: it would keep the process for ever.
  const patience = setTimeout(() => app.server.closeAllConnections(), GRACE_MS);
  await close();
  clearTimeout(patience);
  await (await leave)();
}

/** The methods of the setting `judge`. @throws TroupeError `config_invalid` for what cannot always run */
async function standingMethods(judge: string | null): Promise<readonly MethodAsked[]> {
  if (judge === null) return [];
  const { compareEverything, resolveMethods } = await import('../store/judging/judge.ts');
  const wrong = (why: string) =>
    new TroupeError('config_invalid', `The setting judge (TROUPE_JUDGE) cannot run: ${why}`, { field: 'judge' });
  let methods: readonly MethodAsked[];
  try {
    methods = parseMethods(judge);
    resolveMethods(methods);
  } catch (error) {
    throw error instanceof TroupeError ? wrong(error.message) : error;
  }
  if (compareEverything(methods))
    throw wrong('it names a method that compares all episodes; run that by `troupe judge --methods …`.');
  return methods;
}

/** Those methods, over every group that completes. */
async function judgeAlways(
  { db, log, now, config }: Context,
  methods: readonly MethodAsked[],
  signal: AbortSignal,
): Promise<void> {
  if (methods.length === 0) return;
  const { runJudge } = await import('../store/judging/standing.ts');
  const onError = (error: unknown) => say(`The judge tries again: ${error instanceof Error ? error.message : error}`);
  await runJudge(db, log, { methods, signal, now, closeAfter: config.close_after, onError });
}

/** Closes what nobody closes, looking a few times in the time after which something counts as idle. */
async function closeAlways({ db, log, now, config }: Context, signal: AbortSignal): Promise<void> {
  const { closeIdle } = await import('../store/projecting/closing.ts');
  const closeAfter = config.close_after;
  while (!signal.aborted) {
    try {
      await closeIdle(db, log, { now: now(), closeAfter });
    } catch (error) {
      say(`Idle episodes are closed later: ${error instanceof Error ? error.message : error}`);
    }
    await pause(Math.min(60_000, closeAfter * 250), signal);
  }
}

async function working(
  { db, log, now }: Context,
  role: string,
  handlers: Readonly<Record<string, Handler>>,
  { signal, onReady }: RoleOptions,
): Promise<void> {
  const id = processId(role);
  const leave = await registerProcess(db, { processId: id, role });
  onReady({ role });
  const onTrouble = tellTrouble(`The process \`run ${role}\``);
  const ended = runJobs({ db, log, now }, { worker: id, handlers, signal, onTrouble }).then(() => true);
  const late = untilAborted(signal).then(
    () => new Promise<false>((resolve) => setTimeout(() => resolve(false), GRACE_MS).unref()),
  );
  const finished = await Promise.race([ended, late]);
  if (!finished) for (const job of await handBack(db, id).catch(() => [])) say(`Job ${job} was handed back.`);
  await leave();
  // A step of a model cannot be stopped; its job has another token by now, so nothing it still does counts.
  if (!finished) process.exit(EXIT.done);
}

/**
 * Speaks for one policy. Told which model to begin with, it speaks with that and with what it is told to load; otherwise it speaks
 * with the checkpoint that was released or saved last, and with every later release.
 */
async function infer({ db, home, config }: Context, { policy, model, signal, onReady }: RoleOptions): Promise<void> {
  if (policy === undefined) {
    throw new TroupeError('usage', 'Which policy shall speak? Say: troupe run infer --policy NAME [--model DIR].');
  }
  const [{ startInfer }, { Policy }] = await Promise.all([
    import('../trainer/sampling/infer.ts'),
    import('../trainer/sampling/policy.ts'),
  ]);
  const name = `infer-${policy.slice(0, 24)}-${hostname().slice(0, 16)}-${process.pid}.sock`;
  const inHome = join(home.run, name);
  const socket = fitsSocket(inHome) ? inHome : join(tmpdir(), name);
  const server = await startInfer({ socket, threads: config.threads }, Policy.load);
  const speakWith = (dir: string) => server.load({ dir, name: policy });
  let released = await releasedCheckpoint(db, policy);
  if (model !== undefined) await speakWith(model);
  else await speakWithFirst([...(released ? [released] : []), ...(await savedCheckpoints(db, policy))], speakWith);
  const leave = await registerProcess(db, { processId: processId('infer'), role: 'infer', policy, address: socket });
  onReady({ role: 'infer', address: socket });
  while (!signal.aborted) {
    await pause(500, signal);
    if (model !== undefined || signal.aborted) continue;
    const now = await releasedCheckpoint(db, policy).catch(() => released);
    if (now && now.checkpoint_id !== released?.checkpoint_id) await speakWith(now.uri);
    released = now;
  }
  await server.close();
  await leave();
}

type Known = { readonly checkpoint_id: string; readonly uri: string };

/** Live weights may be gone from the disk: the first that is there is taken, and none is no error, for one may be loaded later. */
async function speakWithFirst(
  candidates: readonly Known[],
  speakWith: (dir: string) => Promise<unknown>,
): Promise<void> {
  for (const { uri } of candidates) {
    try {
      await speakWith(uri);
      return;
    } catch (error) {
      if ((error as TroupeError).code !== 'not_found') throw error;
    }
  }
}

async function savedCheckpoints(db: Context['db'], policy: string): Promise<Known[]> {
  return rowsOf(
    db,
    query
      .selectFrom('facts.checkpoints')
      .select(['checkpoint_id', 'uri'])
      .where('policy', '=', policy)
      .where('uri', 'is not', null)
      .orderBy('version', 'desc')
      .limit(20)
      .$narrowType<{ uri: NotNull }>(),
  );
}

async function releasedCheckpoint(db: Context['db'], policy: string): Promise<Known | null> {
  const released = query
    .selectFrom('facts.releases as r')
    .innerJoin('facts.checkpoints as c', (on) =>
      on.on('c.checkpoint_id', '=', sql<string>`r.policies ->> ${typed(policy, 'text')}`),
    )
    .select(['c.checkpoint_id', 'c.uri'])
    .where('c.uri', 'is not', null)
    .orderBy('r.version', 'desc')
    .limit(1)
    .$narrowType<{ uri: NotNull }>();
  return (await firstOf(db, released)) ?? null;
}
