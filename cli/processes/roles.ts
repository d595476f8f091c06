/**
 * One process a role. They meet only in the log and the tables; killing any of them loses nothing: each resumes from its position, its
 * claim or its checkpoint. What a role needs is loaded when it runs.
 */
import { join } from 'node:path';
import { hostedBy } from '../../api/gateway/hosted.ts';
import { observe } from '../../api/health/prometheus.ts';
import { duringJob } from '../../api/health/tracing/spans.ts';
import { isLoopback } from '../../api/http/origin.ts';
import { standingMethods } from '../../api/operations/judge/methods.ts';
import { countText, EXIT, type Refusal } from '../../errors.ts';
import type { LogSource } from '../../ingest/log/source.ts';
import { patiently } from '../../store/db/patience.ts';
import type { MethodRequest } from '../../store/evaluate/judging/judge.ts';
import { waitProjected } from '../../store/projecting/positions.ts';
import { runProjector } from '../../store/projecting/projector.ts';
import type { Handler } from '../../store/queue/jobs/jobs.ts';
import { registerProcess } from '../../store/queue/jobs/processes.ts';
import { handBack, runJobs, type WorkerTurn } from '../../store/queue/jobs/worker.ts';
import type { Receiver } from '../../store/queue/notify/delivery.ts';
import { type Context, operationContext } from '../context.ts';
import { say, troubleReporter } from '../output.ts';
import { VERSION } from '../version.ts';
import { pause, untilAborted } from '../waiting.ts';
import { takeFirstKey } from './first-key.ts';
import { infer } from './infer-role.ts';
import { processId } from './process-id.ts';
import type { Role, RoleOptions } from './role.ts';
import type { ServingRole } from './serving.ts';

/** How long work under way may go on once the process was asked to stop; then it is handed back. */
const GRACE_MS = 5000;
/** Rollouts that a process plays at a time: one whose team does not come holds up no other. */
const ROLLOUTS = 4;
/** Between two looks at releases that are watched. */
const WATCH_MS = 5000;
/** Between two looks for notifications that were not sent yet. */
const NOTIFY_MS = 3000;
/** Between two looks at events that an older process did not know. */
const REPLAY_MS = 15_000;

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
      onTrouble: troubleReporter('The projector'),
      onBatch: observe.batch,
    });
    const both = AbortSignal.any([signal, stop.signal]);
    const newer = replayNewerAlways(db, both);
    try {
      await (source === null ? own : follow(db, source, signal));
    } finally {
      stop.abort();
      await Promise.all([own, newer]);
    }
    await leave();
  },
  judge: async (context, options) => {
    const [{ storeHandlers }, { annotateHandler }, { chatEndpoint }] = await Promise.all([
      import('../../store/queue/jobs/handlers.ts'),
      import('../../store/evaluate/attribution/annotate.ts'),
      import('../../api/operations/blame/chat-endpoint.ts'),
    ]);
    const annotate = annotateHandler(context, {
      askOf: (spec) => chatEndpoint(spec, process.env),
      wait: pause,
      signal: options.signal,
      caughtUp: (db) => waitProjected(db, { log: context.log }),
    });
    const settings = {
      datasets: context.home.datasets,
      benchmarks: context.home.benchmarks,
      codeVersion: VERSION,
      closeAfter: context.config.close_after,
    };
    const standing = judgeAlways(context, await standingMethods(context.config.judge), options.signal);
    await working(context, 'judge', [{ ...storeHandlers(context, settings), annotate }], options);
    await standing;
  },
  work: async (context, options) => {
    const [
      { trainerHandlers },
      { planHandlers },
      { readEngines },
      { rolloutHandlers },
      { readRunners },
      { readScorers },
      { rewardHandler },
      { programEnv },
      { postJson },
      { turnOf },
      { operationHandler },
    ] = await Promise.all([
      import('../../trainer/loop/jobs/handlers.ts'),
      import('../../trainer/loop/plan/handlers.ts'),
      import('../../trainer/engines/engines.ts'),
      import('../../trainer/loop/play/handler.ts'),
      import('../../trainer/loop/play/runners.ts'),
      import('../../trainer/loop/rewards/source.ts'),
      import('../../trainer/loop/rewards/job.ts'),
      import('../../trainer/loop/play/by-command.ts'),
      import('../../api/http/post.ts'),
      import('./training-turn.ts'),
      import('../../api/operations/job.ts'),
    ]);
    const scorers = readScorers(context.config.rewards);
    const runners = readRunners(context.config.runners, scorers);
    const post = postJson();
    const rollouts = rolloutHandlers(context, { runners, env: process.env, post, signal: options.signal });
    const env = programEnv(process.env, []);
    const reward = rewardHandler(context, {
      scorers,
      scoring: { post, env, keys: process.env, hide: (text) => text },
      caughtUp: (db) => waitProjected(db, { log: context.log }),
    });
    const settings = {
      checkpoints: context.home.checkpoints,
      threads: context.config.threads,
      codeVersion: VERSION,
      onStep: observe.step,
    };
    const { readReceivers } = await import('../../api/notify/receivers.ts');
    const receivers = readReceivers(context.config.notify, process.env);
    const closing = closeAlways(context, options.signal);
    const scheduling = scheduleAlways(context, options.signal);
    const watching = watchAlways(context, options.signal);
    const notifying = notifyAlways(context, receivers, options.signal);
    const { home } = context;
    const { plan, play, gate, program } = planHandlers(context, {
      ...settings,
      runners,
      checking: { folder: home.run, benchmarks: home.benchmarks, datasets: home.datasets },
      engines: readEngines(context.config.engines),
      hosted: hostedBy(context.config),
      env: process.env,
      work: join(context.home.run, 'programs'),
      signal: options.signal,
    });
    const training = { ...trainerHandlers(context, settings), gate, program };
    // A rollout waits for its team for hours, and a plan does milliseconds between two stages: neither holds up a training, nor is held up.
    const playing = Array.from({ length: ROLLOUTS }, () => ({ ...rollouts, reward }));
    const operations = operationHandler({
      ...operationContext(context, 'work'),
      workOnRun: null,
      isHere: false,
      signal: options.signal,
    });
    const queues = [training, ...playing, { plan, play }, operations];
    await working(context, 'work', queues, options, turnOf(context));
    await Promise.all([closing, scheduling, watching, notifying]);
  },
  infer,
};

/** Applies what older processes read and did not know, also while they still run beside this one. */
async function replayNewerAlways(db: Context['db'], signal: AbortSignal): Promise<void> {
  const { replayNewer } = await import('../../store/log/replay-newer.ts');
  while (!signal.aborted) {
    try {
      const events = await replayNewer(db);
      if (events > 0) say(`Applied, which an older Troupe had not known: ${countText(events, 'event')}.`);
    } catch (error) {
      say(`Events of a newer version are looked at later: ${error instanceof Error ? error.message : error}`);
    }
    await pause(REPLAY_MS, signal);
  }
}

async function follow(db: Context['db'], source: LogSource, signal: AbortSignal): Promise<void> {
  const { followLog } = await import('../../store/log/follow.ts');
  await followLog(db, source, { signal, onTrouble: troubleReporter('The projector'), onBatch: observe.batch });
}

async function answer(context: Context, { signal, onReady }: RoleOptions, role: ServingRole): Promise<void> {
  const [{ openServing, startThread }, { openOffload }, { serve }] = await Promise.all([
    import('./serving.ts'),
    import('../../api/http/offload.ts'),
    import('../../api/http/serve.ts'),
  ]);
  const { db, log, config, database } = context;
  const firstKey = takeFirstKey(process.env);
  const thread = (exposed: boolean) =>
    openOffload(() => {
      // Read when the thread starts: a database that was away has its address only then.
      const { project, url, embedded } = database;
      return startThread({ config, project, url, embedded, role, firstKey, exposed });
    });
  const { app, exposed, close } = await openServing(context, {
    role,
    firstKey,
    exposed: async (keyNeeded) => !isLoopback(config.host) && (await keyNeeded()),
    offload: thread,
    ...(role === 'serve' ? { reads: thread } : {}),
  });
  await log.verify?.().catch((error: unknown) => say(`Not ingesting yet: ${(error as Error).message}`));
  const { url } = await serve(app, { host: config.host, port: config.port, exposed });
  const registering = patiently(() => registerProcess(db, { processId: processId(role), role, address: url }), {
    signal,
  });
  // Ingest on a log of its own works while the database is away.
  if (!(role === 'ingest' && log.partitions !== undefined)) await registering;
  const leave = registering.catch(() => async () => {});
  if (role === 'serve' && database.embedded) void watchToolSessions(context, signal);
  say(`Troupe answers at ${url}`);
  onReady({ role, address: url });
  await Promise.race([untilAborted(signal), context.failed]);
  // Whoever still reads a stream is cut off: it would keep the process for ever.
  const patience = setTimeout(() => app.server.closeAllConnections(), GRACE_MS);
  await close();
  clearTimeout(patience);
  await (await leave)();
}

/** Programs that `troupe sql url` let in have a clock outside, and so has a query whose process was killed. */
async function watchToolSessions({ db, database }: Context, signal: AbortSignal): Promise<void> {
  const [{ watchTools }, { BACKEND_BYTES, readerRole, toolRole, TOOL_MS }] = await Promise.all([
    import('../../store/server/tool-clock.ts'),
    import('../../store/db/reader.ts'),
  ]);
  const own = readerRole(database);
  await watchTools(db, toolRole(database), { ms: TOOL_MS, bytes: BACKEND_BYTES, own, signal });
}

/** The methods of the setting `judge`, over every group that completes. */
async function judgeAlways(
  { db, log, now, config }: Context,
  methods: readonly MethodRequest[],
  signal: AbortSignal,
): Promise<void> {
  if (methods.length === 0) return;
  const { runJudge } = await import('../../store/evaluate/judging/standing.ts');
  const onError = (error: unknown) => say(`The judge retries: ${error instanceof Error ? error.message : error}`);
  await runJudge(db, log, { methods, signal, now, closeAfter: config.close_after, onError, onJudged: observe.judged });
}

/** Closes what nobody closes, looking a few times in the time after which something counts as idle. */
async function closeAlways({ db, log, now, config }: Context, signal: AbortSignal): Promise<void> {
  const { closeIdle, staysOpen } = await import('../../store/projecting/closing.ts');
  const closeAfter = config.close_after;
  const reported = new Set<string>();
  const onRefused = (episode: string, refusal: Refusal) => {
    if (!reported.has(episode)) say(staysOpen(episode, refusal));
    reported.add(episode);
  };
  while (!signal.aborted) {
    try {
      await closeIdle(db, log, { now: now(), closeAfter, onRefused });
    } catch (error) {
      say(`Closing idle episodes failed and is retried: ${error instanceof Error ? error.message : error}`);
    }
    await pause(Math.min(60_000, closeAfter * 250), signal);
  }
}

/** Looks at what was released, and goes back where a watch finds a fall; and at canaries, which end once they are decided. */
async function watchAlways(context: Context, signal: AbortSignal): Promise<void> {
  const [{ lookAtWatches }, { lookAtCanaries }] = await Promise.all([
    import('../../store/loop/comparison/watching.ts'),
    import('../../trainer/loop/comparison/canarying.ts'),
  ]);
  while (!signal.aborted) {
    const began = performance.now();
    try {
      for (const { job_id, report } of await lookAtCanaries(context)) say(`${job_id}: ${report.reason}`);
      for (const { outcome, reason, rollback } of await lookAtWatches(context))
        if (outcome === 'fell' && rollback) say(`Back to release ${rollback.back_to}: ${reason}`);
    } catch (error) {
      say(`Releases are looked at later: ${error instanceof Error ? error.message : error}`);
    }
    // Long canaries have many episodes: looking takes a twentieth of the time at most.
    await pause(Math.max(WATCH_MS, 20 * (performance.now() - began)), signal);
  }
}

/** Notifies each receiver; none waits for another. */
async function notifyAlways(
  { db, now, database }: Context,
  receivers: readonly Receiver[],
  signal: AbortSignal,
): Promise<void> {
  if (receivers.length === 0) return;
  const { deliver } = await import('../../store/queue/notify/delivery.ts');
  const options = { project: database.project, now, signal, onTrouble: say };
  await Promise.all(
    receivers.map(async (receiver) => {
      while (!signal.aborted) {
        let more = false;
        try {
          more = await deliver(db, receiver, options);
        } catch (error) {
          say(`${receiver.name} is notified later: ${error instanceof Error ? error.message : error}`);
        }
        if (!more) await pause(NOTIFY_MS, signal);
      }
    }),
  );
}

/** Requests the jobs of schedules when they are due; each process of this role does, and each tick starts one job all the same. */
async function scheduleAlways({ db, log, now }: Context, signal: AbortSignal): Promise<void> {
  const { runScheduler } = await import('../../store/queue/schedules/scheduler.ts');
  await runScheduler(
    { db, log, now },
    {
      signal,
      onTrouble: troubleReporter('The scheduler'),
      onBroken: (name, error) =>
        say(`Schedule ${name} starts no job: ${error instanceof Error ? error.message : error}`),
    },
  );
}

/** What a job asks of others comes below its span. */
const traced = (handlers: Readonly<Record<string, Handler>>): Readonly<Record<string, Handler>> =>
  Object.fromEntries(
    Object.entries(handlers).map(([kind, handler]) => [
      kind,
      (job, ...more) => duringJob(job.job_id, () => handler(job, ...more)),
    ]),
  );

/** Does jobs of these queues, of each one after the other. */
async function working(
  { db, log, now }: Context,
  role: string,
  queues: readonly Readonly<Record<string, Handler>>[],
  { signal, onReady }: RoleOptions,
  turn?: WorkerTurn,
): Promise<void> {
  const id = processId(role);
  const leave = await registerProcess(db, { processId: id, role });
  onReady({ role });
  const onTrouble = troubleReporter(`The process \`run ${role}\``);
  const ended = Promise.all(
    queues.map((handlers) =>
      runJobs(
        { db, log, now },
        { worker: id, handlers: traced(handlers), signal, onTrouble, onEnded: observe.job, ...(turn && { turn }) },
      ),
    ),
  ).then(() => true);
  const late = untilAborted(signal).then(
    () => new Promise<false>((resolve) => setTimeout(() => resolve(false), GRACE_MS).unref()),
  );
  const finished = await Promise.race([ended, late]);
  if (!finished) for (const job of await handBack(db, id).catch(() => [])) say(`Job ${job} was handed back.`);
  await leave();
  // A step of a model cannot be stopped; its job has another token by now, so nothing it still does counts.
  if (!finished) process.exit(EXIT.done);
}
