/**
 * Everything at once: a process for each role, one more for each policy that was released or that a plan waits for, each started again
 * whenever it ends. What the supervisor must know it remembers itself: the database may be away when a role ends.
 */
import { hostedBy } from '../../api/gateway/hosted.ts';
import type { Role } from '../../api/health/prometheus.ts';
import type { ErrorCode, TroupeError } from '../../errors.ts';
import { patiently } from '../../store/db/patience.ts';
import { type NotNull, query, rowsOf } from '../../store/db/query.ts';
import { registerProcess } from '../../store/queue/jobs/processes.ts';
import { basesWanted, weightsWanted } from '../../trainer/loop/play/serving.ts';
import type { Context } from '../context.ts';
import { say } from '../output.ts';
import { pause } from '../waiting.ts';
import { type Child, type RoleSettings, startRole } from './children.ts';
import type { MetricsServer } from './metrics-server.ts';
import { processId } from './process-id.ts';
import { countsOf } from './role-metrics.ts';
import { claimHome } from './single-up.ts';

export type UpOptions = {
  readonly settings: RoleSettings;
  readonly port: number;
  readonly host: string;
  readonly signal: AbortSignal;
  readonly onReady: (url: string) => void;
  /** Port at which the metrics of all roles are read; none if omitted. */
  readonly metricsPort?: number;
};

const LOOK_MS = 3000;

/** The policies that were ever released. */
const released = query
  .selectFrom('traj.releases')
  .select('policy')
  .distinct()
  .where('policy', 'is not', null)
  .$narrowType<{ policy: NotNull }>();
/** Pauses before a role is started again; one that worked for so long begins with the least. */
const PAUSE_MS = { least: 250, most: 15_000, settled: 60_000 };

/** What starting again cannot mend: settings, and what the machine or the home is. Anything else is tried for ever. */
const PERMANENT: readonly ErrorCode[] = [
  'usage',
  'config_invalid',
  'port_taken',
  'home_unwritable',
  'schema_newer',
  'schema_missing',
  'platform_unsupported',
  'conflict',
];

/**
 * Runs until the signal; then stops all.
 * @throws TroupeError `conflict` where another `troupe up` has this home and project; with the sentence of a role that was never ready and
 * ended for a reason that starting again cannot mend.
 */
export async function runUp(
  context: Context,
  { settings, port, host, signal, onReady, metricsPort }: UpOptions,
): Promise<void> {
  const { db, home, database } = context;
  const ended = new AbortController();
  const release = await claimHome(home, database.project, () => {
    say('Ended by `troupe down`.');
    ended.abort();
  });
  const hosted = hostedBy(context.config);
  const children = new Map<Child, Role>();
  let failure: TroupeError | null = null;
  const fail = (error: TroupeError) => {
    failure ??= error;
    ended.abort();
  };
  const stopping = AbortSignal.any([signal, ended.signal]);

  /** Keeps a role running. `needed`: where it cannot work at all, nothing can. */
  const keep = (labels: Role, args: () => readonly string[], { needed }: { readonly needed: boolean }): void => {
    const { role } = labels;
    let worked = false;
    let pause = PAUSE_MS.least;
    const start = (): void => {
      if (stopping.aborted) return;
      let readyAt = Number.POSITIVE_INFINITY;
      const child = startRole(role, settings, args(), (error) => {
        children.delete(child);
        if (stopping.aborted) return;
        if (needed && !worked && PERMANENT.includes(error.code)) return fail(error);
        if (performance.now() - readyAt > PAUSE_MS.settled) pause = PAUSE_MS.least;
        say(`${error.message}\n  It is started again${pause < 1000 ? '' : ` in ${pause / 1000} s`}.`);
        setTimeout(start, pause);
        pause = Math.min(PAUSE_MS.most, pause * 2);
      });
      children.set(child, labels);
      void child.ready.then(({ address }) => {
        worked = true;
        readyAt = performance.now();
        if (role === 'serve' && address !== undefined) served(address);
      });
    };
    start();
  };

  let url: string | null = null;
  const served = (address: string) => {
    if (url === null) onReady(address);
    url ??= address;
  };
  // Port 0 is any free one; once chosen it stays, so that whoever calls it finds it again.
  const servePort = () => (url === null ? String(port) : new URL(url).port);
  /** Until its first release a policy is served with the base that a plan begins with. */
  const bases = new Map<string, string | null>();
  const serve = (policy: string, base: string | null): void => {
    const isServed = bases.has(policy);
    bases.set(policy, base);
    if (isServed) return;
    const model = () => bases.get(policy) ?? null;
    keep({ role: 'infer', policy }, () => ['--policy', policy, ...modelFlag(model())], { needed: false });
  };

  let metrics: MetricsServer | null = null;
  const registered = patiently(() => registerProcess(db, { processId: processId('up'), role: 'up' }), {
    signal: stopping,
  }).catch(() => async () => {});
  try {
    if (metricsPort !== undefined) metrics = await serveMetricsOf(context, children, metricsPort);
    keep({ role: 'serve' }, () => ['--host', host, '--port', servePort()], { needed: true });
    for (const role of ['project', 'judge', 'work']) keep({ role }, () => [], { needed: true });
    while (!stopping.aborted) {
      for (const [policy, base] of Object.entries(await basesWanted(db).catch(() => ({})))) serve(policy, base);
      // Before its first release a policy is answered by the model that its route falls back to, not by a candidate.
      for (const [policy, begun] of Object.entries(await weightsWanted(db).catch(() => ({}))))
        serve(policy, policy in hosted ? null : begun);
      for (const { policy } of await rowsOf(db, released).catch(() => [])) serve(policy, null);
      await pause(LOOK_MS, stopping);
    }
    if (failure) throw failure;
  } finally {
    ended.abort();
    metrics?.close();
    await Promise.all([...children.keys()].map((child) => child.stop()));
    await (await registered)();
    release();
  }
}

const modelFlag = (model: string | null): string[] => (model === null ? [] : ['--model', model]);

/** Serves the counts of the database and of every process at one port, each process with its role as a label. */
async function serveMetricsOf(
  context: Context,
  children: ReadonlyMap<Child, Role>,
  port: number,
): Promise<MetricsServer> {
  const [{ serveMetrics }, { projectMetrics, prometheusText }, { metricsOfRoles }] = await Promise.all([
    import('./metrics-server.ts'),
    import('../../api/health/metrics.ts'),
    import('../../api/health/prometheus.ts'),
  ]);
  const metrics = async (): Promise<string> => {
    const counted = [...children].map(async ([{ process }, labels]) => ({ labels, counts: await countsOf(process) }));
    const [project, roles] = await Promise.all([projectMetrics(context.db, context.log), Promise.all(counted)]);
    return prometheusText(project) + (await metricsOfRoles(roles));
  };
  const server = await serveMetrics(context, { role: 'up', port, metrics });
  say(`Metrics of all roles at ${server.url}/metrics`);
  return server;
}
