/** Whether a process can do its work, and the warnings if it can. */
import { type ErrorCode, TroupeError } from '../../errors.ts';
import type { EventLog } from '../../ingest/log/log.ts';
import { checkSchema, type Schema } from '../../migrations/migrate.ts';
import type { Db } from '../../store/db/pool.ts';
import { query, rowsOf, sql } from '../../store/db/query.ts';
import { awaitedTypes } from '../../store/log/replay-newer.ts';
import { LONG_WAIT_S, lag, oldestWaiting, type PartitionLag, partitionLags } from '../../store/projecting/positions.ts';
import { type Serving, servingNow } from '../../trainer/loop/release/serving.ts';

export type Readiness = {
  readonly status: 'ready' | 'degraded' | 'not_ready';
  readonly database: 'ok' | 'unreachable';
  /** compatible: newer code migrated the database and says that this code works with it. */
  readonly schema: 'current' | 'compatible' | 'behind' | 'newer' | 'changed' | 'unknown';
  /** replaced: another topic or broker answers under its name; repartitioned: its keys would go elsewhere. Nothing is written to either. */
  readonly log: 'ok' | 'unreachable' | 'replaced' | 'repartitioned';
  /** Events in the log that are not in the tables yet. */
  readonly lag_events: number | null;
  /** Warnings and errors. */
  readonly reasons: readonly string[];
  /** Records that were rejected in the last hour, and events of types that a newer Troupe knows. Their senders caused them, so the server is ready all the same. */
  readonly dead_letters: readonly string[];
  /** Sampling processes with the version that each answers with, and the one that was released. */
  readonly serving: readonly Omit<Serving, 'address'>[];
};

export type ReadinessContext = {
  readonly db: Db;
  readonly log: EventLog;
  readonly known: Schema;
  /** A process that only ingests into a log outside the database works without the database. */
  readonly ingestOnly: boolean;
};

/** Never throws: what cannot be reached is part of the result. */
export async function readiness({ db, log, known, ingestOnly }: ReadinessContext): Promise<Readiness> {
  const [own, { partitions: outer, why }] = await Promise.all([databaseState(db, known), outerLog(log)]);
  const reasons = [...own.reasons];
  if (why !== null) reasons.push(why.message);
  let lagEvents = own.lag;
  if (lagEvents !== null && outer !== null && outer.length > 0) {
    const lags = await partitionLags(db, log.name, outer).catch(() => null);
    lagEvents = lags === null ? null : lagEvents + lags.reduce((sum, one) => sum + one.lag, 0);
    const still = lags === null ? 0 : unread(db, lags);
    if (still > LONG_WAIT_S) reasons.push(standing(`Records of ${log.name} have been left unread`, still));
  }
  if (own.waits > LONG_WAIT_S)
    reasons.push(standing(`The oldest event that is not in the tables, of ${own.lag}, has waited`, own.waits));
  const needsDatabase = !(ingestOnly && log.partitions !== undefined);
  const works = outer !== null && (!needsDatabase || own.schema === 'current' || own.schema === 'compatible');
  // A process among newer ones does its work, which is no warning; why it may is shown all the same.
  const shown = own.why === null ? reasons : [own.why, ...reasons];
  return {
    status: !works ? 'not_ready' : reasons.length > 0 ? 'degraded' : 'ready',
    database: own.database,
    schema: own.schema,
    log: why === null ? 'ok' : (LOG_STATES[why.code] ?? 'unreachable'),
    lag_events: lagEvents,
    reasons: shown,
    dead_letters: own.letters,
    serving: own.serving,
  };
}

const LOG_STATES: Partial<Record<ErrorCode, Readiness['log']>> = {
  log_replaced: 'replaced',
  log_repartitioned: 'repartitioned',
};

const standing = (what: string, seconds: number): string =>
  `${what} for ${Math.floor(seconds)} s: no projector runs, it stands still, or it has fallen behind; its log says why.`;

/** Where each partition of a log outside was read to when records after it were first seen unread. */
const seen = new WeakMap<Db, ReadonlyMap<number, { readonly position: number; readonly since: number }>>();

/** The most seconds for which this process has seen a partition with records that nobody reads: the log does not say how long they wait. */
function unread(db: Db, lags: readonly PartitionLag[]): number {
  const before = seen.get(db);
  const now = performance.now();
  const waiting = lags
    .filter((one) => one.lag > 0)
    .map(({ partition, position }) => {
      const known = before?.get(partition);
      return [partition, known?.position === position ? known : { position, since: now }] as const;
    });
  seen.set(db, new Map(waiting));
  return Math.max(0, ...waiting.map(([, { since }]) => (now - since) / 1000));
}

/** Empty for the embedded log: the database is it. Null where the log does not answer. */
async function outerLog(log: EventLog) {
  try {
    return { partitions: (await log.partitions?.()) ?? [], why: null };
  } catch (error) {
    if (error instanceof TroupeError) return { partitions: null, why: error };
    const text = `The log ${log.name} cannot be reached; check the setting kafka_brokers.`;
    return { partitions: null, why: new TroupeError('unreachable', text, { cause: error }) };
  }
}

async function databaseState(db: Db, known: ReadinessContext['known']) {
  try {
    const { state, why } = await checkSchema(db, known);
    const schema = { database: 'ok', schema: state, why } as const;
    if (state === 'behind') return { ...schema, lag: null, waits: 0, reasons: [], letters: [], serving: [] };
    const serving = (await servingNow(db)).map(({ address: _, ...shown }) => shown);
    const reasons = serving.filter(({ late }) => late).map(behindRelease);
    return {
      ...schema,
      lag: await lag(db),
      waits: await oldestWaiting(db),
      reasons,
      letters: await deadLetters(db),
      serving,
    };
  } catch (error) {
    const code = error instanceof TroupeError ? error.code : null;
    const schema = code === 'schema_newer' ? 'newer' : code === 'conflict' ? 'changed' : 'unknown';
    const away = schema === 'unknown';
    const reasons = away ? [`The database cannot be reached now: ${firstLine(error)}`] : [];
    const why = schema === 'newer' ? (error as Error).message : null;
    return {
      database: away ? 'unreachable' : 'ok',
      schema,
      why,
      lag: null,
      waits: 0,
      reasons,
      letters: [],
      serving: [],
    } as const;
  }
}

const behindRelease = ({ process, policy, checkpoint, released }: Omit<Serving, 'address'>): string =>
  `${process} serves ${checkpoint ?? 'nothing'} for ${policy}, but ${released} was released; its log says why.`;

const firstLine = (error: unknown): string => (error as Error).message.split('\n', 1)[0]!;
const counted = (n: number, name: string): string => `${n} ${name}${n === 1 ? '' : 's'}`;

/** Those of the last hour that were not replayed, and, however long, what waits for newer code. */
async function deadLetters(db: Db): Promise<readonly string[]> {
  const awaited = (await awaitedTypes(db)).map(
    ({ type, events }) =>
      `${counted(events, 'event')} of type ${type.slice(1, -1)}, known to a newer Troupe only, which applies what waits once it is started.`,
  );
  const rows = await rowsOf(
    db,
    query
      .selectFrom('troupe.dead_letters')
      .select(['endpoint', 'code', sql<number>`count(*)::float8`.as('letters')])
      .where('last_at', '>', sql<string>`clock_timestamp() - interval '1 hour'`)
      .where('replayed_at', 'is', null)
      .groupBy(['endpoint', 'code'])
      .orderBy('endpoint')
      .orderBy('code')
      .limit(20),
  );
  const refused = rows.map(
    ({ endpoint, code, letters }) =>
      `${counted(letters, 'dead letter')} of the last hour at ${endpoint}: ${code}; \`troupe deadletters\` lists them.`,
  );
  return [...awaited, ...refused];
}
