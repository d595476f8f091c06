/** What `troupe doctor` looks at: the settings, and whether what Troupe needs is there. */
import { existsSync } from 'node:fs';
import { readlink, statfs } from 'node:fs/promises';
import { totalmem } from 'node:os';
import { dirname } from 'node:path';
import { bytesText } from '../api/operations/bytes.ts';
import { type Config, loadConfig, SETTINGS, type SettingName, shown } from '../config.ts';
import { countText, EXIT, TroupeError } from '../errors.ts';
import { checkSchema, readSchema } from '../migrations/migrate.ts';
import { query, rowsOf, type SqlBool, scalarOf, sql } from '../store/db/query.ts';
import { awaitedTypes } from '../store/log/replay-newer.ts';
import { LONG_WAIT_S, lag, oldestWaiting, partitionLags } from '../store/projecting/positions.ts';
import { type LeftBehind, leftBehind } from '../store/server/elsewhere.ts';
import { homeAt } from '../store/server/home.ts';
import type { Flags } from './command.ts';
import { type Context, withContext } from './context.ts';
import { answer, paint, table } from './output.ts';
import { processesHere } from './processes/process-id.ts';
import { VERSION } from './version.ts';

type Check = {
  readonly check: string;
  readonly ok: boolean;
  /** Worth a look, and nothing that keeps Troupe from working. */
  readonly warns?: true;
  readonly detail: string;
};

/** A process beats every 3 s; a step of a model may hold it up for a while. */
const SILENT_S = 30;

/** With `role`, only what a process of that role on this machine needs, and whether it lives: for who must look often. */
export async function doctor(flags: Flags): Promise<number> {
  const config = loadConfig(flags, process.env);
  const settings = (Object.keys(SETTINGS) as SettingName[]).map((name) => ({
    setting: name,
    value: shown(config, name),
    origin: config.origins[name],
    about: SETTINGS[name].about,
  }));
  const role = flags.role === undefined ? null : String(flags.role);
  const checks = role === null ? await machineChecks(flags, config) : await roleChecks(flags, role);
  const settingsTable = () =>
    table(
      ['setting', 'value', 'origin'],
      settings.map((s) => [s.setting, s.value, s.origin]),
    );
  answer(flags, { version: VERSION, ...(role === null ? { settings } : {}), checks }, () =>
    [
      ...(role === null ? [settingsTable()] : []),
      ...checks.map(
        ({ check, ok, warns, detail }) =>
          `${ok ? (warns ? paint.yellow('!') : paint.green('✓')) : paint.red('✗')} ${check}: ${detail}`,
      ),
    ].join('\n'),
  );
  return checks.every((check) => check.ok) ? EXIT.done : EXIT.failed;
}

async function machineChecks(flags: Flags, config: Config): Promise<Check[]> {
  return [
    { check: 'node', ok: true, detail: process.version },
    await attempt('disk', () => freeDisk(homeAt(config.home).root)),
    ...(await databaseDisk(homeAt(config.home).data)),
    await attempt('memory', async () => freeMemory()),
    await attempt('port', () => portIsOurs(config)),
    await attempt('training', () => trainingHere(config)),
    await attempt('onnxruntime', async () =>
      (await (await import('../trainer/tensor/session.ts')).runtime()) ? 'loads' : '',
    ),
    ...(await placeChecks(flags, projectChecks)),
    // After the database was opened: a home that was moved has just recorded its new place.
    ...leftBehind(homeAt(config.home).root).map(databaseLeft),
  ];
}

function databaseLeft({ folder, home, bytes, server }: LeftBehind): Check {
  const whose =
    home === null
      ? 'a database of unknown home: an older Troupe made it, and no home that was opened since links to it. Unless one of yours does'
      : `the database of the home ${home}, which ${existsSync(home) ? 'has another one now' : 'is gone'}. Unless it was moved, or its disk is away`;
  const stop = server === null ? '' : `stop process ${server}, which runs on it, and `;
  const detail = `${folder} (${bytesText(bytes)}) is ${whose}, ${stop}remove it: rm -r ${folder}`;
  return { check: 'left behind', ok: true, warns: true, detail };
}

const roleChecks = (flags: Flags, role: string): Promise<Check[]> =>
  placeChecks(flags, async (context) => [await attempt(role, () => lastBeat(context, role))]);

/** The database and, if it is elsewhere, the log; and what else is asked of them. */
async function placeChecks(flags: Flags, more: (context: Context) => Promise<Check[]>): Promise<Check[]> {
  const checks: Check[] = [];
  try {
    await withContext(flags, async (context) => {
      const { log, db, database, config } = context;
      if (config.kafka_brokers !== null) {
        const from = `KAFKA_BROKERS is ${config.kafka_brokers}`;
        checks.push(
          await attempt('kafka', async () => {
            const partitions = (await log.partitions?.()) ?? [];
            if (partitions.length === 0) return `${log.name} is made with the first event; ${from}`;
            refuseCompacted(log.name, (await log.cleanup?.()) ?? null);
            return `${log.name} has ${countText(partitions.length, 'partition')}; ${from}`;
          }).then((check) => (check.ok ? check : { ...check, detail: `${check.detail} ${from}.` })),
        );
      }
      const version = await scalarOf(db, sql<string>`current_setting('server_version')`);
      const detail = `PostgreSQL ${version}, project ${database.project}${database.embedded ? ', embedded' : ''}`;
      checks.push({ check: 'database', ok: true, detail });
      const { why } = await checkSchema(db);
      const awaited = (await awaitedTypes(db)).map(
        ({ type, events }) =>
          `${events} event${events === 1 ? ' waits' : 's wait'} for a newer Troupe, of type ${type.slice(1, -1)}`,
      );
      checks.push({
        check: 'schema',
        ok: true,
        detail: [why ?? `${readSchema().migrations.length}, of this Troupe`, ...awaited].join('; '),
      });
      if (database.embedded) checks.push(await queryMemory());
      checks.push(...(await more(context)));
    });
  } catch (error) {
    const check = error instanceof TroupeError && error.code === 'config_invalid' ? 'settings' : 'database';
    checks.push({ check, ok: false, detail: (error as Error).message });
  }
  return checks;
}

/** Of the records of a key, such as the events of an episode, compaction keeps the last one. @throws TroupeError `conflict` */
function refuseCompacted(log: string, policy: string | null): void {
  if (policy?.includes('compact'))
    throw new TroupeError(
      'conflict',
      `The topic of ${log} has cleanup.policy=${policy}: the brokers delete events that were not read yet, all of an episode but the last. Set it to delete (kafka-configs.sh --alter --add-config cleanup.policy=delete).`,
    );
}

/** Whether what a SQL query takes has a bound; where it has none, the database works all the same. */
async function queryMemory(): Promise<Check> {
  const [{ canLimitMemory }, { BACKEND_BYTES }] = await Promise.all([
    import('../store/server/memory.ts'),
    import('../store/db/reader.ts'),
  ]);
  const detail = (await canLimitMemory())
    ? `at most ${BACKEND_BYTES / 1024 / 1024} MB a query`
    : 'not limited: the program prlimit of util-linux is not there';
  return { check: 'memory of SQL queries', ok: true, detail };
}

/** Less than this is reported as wrong: no training and no batch of events fits into it. */
const LEAST = { disk: 1024 ** 3, memory: 256 * 1024 ** 2 };

/** Where the database lies outside its home, on what may be another file system. */
async function databaseDisk(data: string): Promise<Check[]> {
  const elsewhere = await readlink(data).catch(() => null);
  return elsewhere === null ? [] : [await attempt('disk of the database', () => freeDisk(elsewhere))];
}

/** Of the file system that the home is on, or will be on. @throws TroupeError `disk_full` */
async function freeDisk(home: string): Promise<string> {
  const found = await statfs(home).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT' && dirname(home) !== home) return null;
    throw error;
  });
  if (found === null) return freeDisk(dirname(home));
  const [free, all] = [found.bavail * found.bsize, found.blocks * found.bsize];
  const detail = `${bytesText(free)} free of ${bytesText(all)} at ${home}`;
  if (free < LEAST.disk) throw new TroupeError('disk_full', `${detail}; expected at least ${bytesText(LEAST.disk)}.`);
  return detail;
}

/** What this process may still take, with the limit of its container. @throws TroupeError `busy` */
function freeMemory(): string {
  const free = process.availableMemory();
  const detail = `${bytesText(free)} available, the machine has ${bytesText(totalmem())}`;
  if (free < LEAST.memory) throw new TroupeError('busy', `${detail}; expected at least ${bytesText(LEAST.memory)}.`);
  return detail;
}

/** Which jobs train on this machine, of any project and home. */
async function trainingHere({ trainings }: Config): Promise<string> {
  const { holdersText, placeHolders } = await import('../trainer/loop/jobs/training-place.ts');
  const holders = await placeHolders({ count: trainings });
  const most = `at most ${trainings} at a time (setting trainings)`;
  return holders.length === 0 ? `no job trains on this machine; ${most}` : `${holdersText(holders)}; ${most}`;
}

/** Whether the port of the API is free, or Troupe's. @throws TroupeError `port_taken` */
async function portIsOurs({ host, port }: Config): Promise<string> {
  if (port === 0) return 'any free port';
  const asked = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host;
  const place = `${host} port ${port}`;
  try {
    const answer = await fetch(`http://${asked.includes(':') ? `[${asked}]` : asked}:${port}/healthz`, {
      signal: AbortSignal.timeout(3000),
    });
    const { status, version, project } = (await answer.json()) as Readonly<Record<string, unknown>>;
    if (status === 'ok') return `${place}: Troupe ${version}, project ${project}`;
  } catch (error) {
    const { code } = ((error as Error).cause ?? {}) as { readonly code?: string };
    if (code === 'ECONNREFUSED') return `${place}: free`;
  }
  throw new TroupeError('port_taken', `Another program listens on ${place}; stop it, or use another with --port.`);
}

/** Which processes work on the project, whether events become rows, and which login runs SQL queries. */
async function projectChecks({ db, log, database }: Context): Promise<Check[]> {
  const rows = await rowsOf(
    db,
    query
      .selectFrom('troupe.processes')
      .select(['role', sql<number>`count(*)::integer`.as('n')])
      .where('heartbeat_at', '>', sql<string>`clock_timestamp() - make_interval(secs => ${SILENT_S})`)
      .groupBy('role')
      .orderBy('role'),
  );
  const running = rows.map(({ role, n }) => `${n} ${role}`).join(', ');
  return [
    { check: 'processes', ok: true, detail: running === '' ? 'none; `troupe up` starts all of them' : running },
    await attempt('lag', async () => {
      const outer = (await log.partitions?.()) ?? [];
      const lags = outer.length === 0 ? [] : await partitionLags(db, log.name, outer);
      const events = lags.reduce((sum, one) => sum + one.lag, await lag(db));
      const detail = `${countText(events, 'event')} of the log not in the tables`;
      if (events > 0 && running !== '' && !rows.some(({ role }) => role === 'project'))
        throw new TroupeError('unreachable', `${detail}, and no process of the role project runs.`);
      const waits = await oldestWaiting(db);
      if (waits > LONG_WAIT_S && running !== '')
        throw new TroupeError(
          'busy',
          `${detail}; the oldest has waited for ${Math.floor(waits)} s. The projector stands still or has fallen behind; its log says why.`,
        );
      return detail;
    }),
    await attempt('sql', async () => {
      const { openReader, withoutReader } = await import('../store/db/reader.ts');
      const reader = await openReader(database);
      await reader?.close();
      return reader === null
        ? withoutReader(database)
        : 'queries run as a login that sees only the views of schemas traj and report';
    }),
  ];
}

/** When a process of this role on this machine last sent a heartbeat. @throws TroupeError `not_found`, `unreachable` */
async function lastBeat({ db }: Context, role: string): Promise<string> {
  const rows = await rowsOf(
    db,
    query
      .selectFrom('troupe.processes')
      .select(['process_id', 'pid'])
      .select(sql<number>`extract(epoch from clock_timestamp() - heartbeat_at)::float8`.as('silent'))
      .where('role', '=', role)
      .where(sql<SqlBool>`starts_with(process_id, ${processesHere(role)})`)
      .orderBy('heartbeat_at', 'desc'),
  );
  // One that was killed stays on the list for a while.
  const last = rows.find(({ pid }) => isAlive(pid));
  if (!last) throw new TroupeError('not_found', `No process of the role ${role} runs on this machine.`);
  const heartbeat = `${last.process_id} sent a heartbeat ${last.silent.toFixed(1)} s ago`;
  if (last.silent > SILENT_S) throw new TroupeError('unreachable', `${heartbeat}; expected at most ${SILENT_S} s.`);
  return heartbeat;
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

async function attempt(check: string, work: () => Promise<string>): Promise<Check> {
  try {
    return { check, ok: true, detail: await work() };
  } catch (error) {
    return { check, ok: false, detail: (error as Error).message };
  }
}
