/** What `troupe doctor` looks at: the settings, and whether what Troupe needs is there. */
import { loadConfig, SETTINGS, type SettingName, shown } from '../config.ts';
import { EXIT, TroupeError } from '../errors.ts';
import { query, rowsOf, type SqlBool, scalarOf, sql } from '../store/db/query.ts';
import { type Context, withContext } from './context.ts';
import { paint, print, printJson, table } from './output.ts';
import { processesHere } from './process-id.ts';
import { VERSION } from './version.ts';

type Check = { readonly check: string; readonly ok: boolean; readonly detail: string };
type Flags = Readonly<Record<string, unknown>>;

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
  const checks = role === null ? await machineChecks(flags) : await roleChecks(flags, role);
  if (flags.json) printJson({ version: VERSION, ...(role === null ? { settings } : {}), checks });
  else {
    if (role === null)
      print(
        table(
          ['setting', 'value', 'origin'],
          settings.map((s) => [s.setting, s.value, s.origin]),
        ),
      );
    for (const { check, ok, detail } of checks) print(`${ok ? paint.green('✓') : paint.red('✗')} ${check}: ${detail}`);
  }
  return checks.every((check) => check.ok) ? EXIT.done : EXIT.failed;
}

async function machineChecks(flags: Flags): Promise<Check[]> {
  return [
    { check: 'node', ok: true, detail: process.version },
    await attempt('onnxruntime', async () =>
      (await (await import('../trainer/graph/session.ts')).runtime()) ? 'loads' : '',
    ),
    ...(await placeChecks(flags)),
  ];
}

const roleChecks = (flags: Flags, role: string): Promise<Check[]> =>
  placeChecks(flags, (context) => attempt(role, () => lastBeat(context, role)));

/** The database and, if it is elsewhere, the log; and what else is asked of them. */
async function placeChecks(flags: Flags, more?: (context: Context) => Promise<Check>): Promise<Check[]> {
  const checks: Check[] = [];
  try {
    await withContext(flags, async (context) => {
      const { log, db, database, config } = context;
      if (config.kafka_brokers !== null) {
        const from = `KAFKA_BROKERS is ${config.kafka_brokers}`;
        checks.push(
          await attempt('kafka', async () => {
            const partitions = (await log.partitions?.()) ?? [];
            return partitions.length === 0
              ? `${log.name} is made with the first event; ${from}`
              : `${log.name} has ${partitions.length} partitions; ${from}`;
          }).then((check) => (check.ok ? check : { ...check, detail: `${check.detail} ${from}.` })),
        );
      }
      const version = await scalarOf(db, sql<string>`current_setting('server_version')`);
      const detail = `PostgreSQL ${version}, project ${database.project}${database.embedded ? ', embedded' : ''}`;
      checks.push({ check: 'database', ok: true, detail });
      if (database.embedded) checks.push(await queryMemory());
      if (more) checks.push(await more(context));
    });
  } catch (error) {
    const check = error instanceof TroupeError && error.code === 'config_invalid' ? 'settings' : 'database';
    checks.push({ check, ok: false, detail: (error as Error).message });
  }
  return checks;
}

/** Whether what a SQL query takes has a bound; where it has none, the database works all the same. */
async function queryMemory(): Promise<Check> {
  const [{ canLimitMemory }, { BACKEND_BYTES }] = await Promise.all([
    import('../store/db/memory.ts'),
    import('../store/db/reader.ts'),
  ]);
  const detail = (await canLimitMemory())
    ? `at most ${BACKEND_BYTES / 1024 / 1024} MB a query`
    : 'not limited: the program prlimit of util-linux is not there';
  return { check: 'memory of SQL queries', ok: true, detail };
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
