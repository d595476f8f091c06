/** Whether a process can do its work, and the warnings if it can. */
import { TroupeError } from '../errors.ts';
import type { EventLog } from '../ingest/log/log.ts';
import { checkSchema, type readMigrations } from '../migrations/migrate.ts';
import type { Db } from '../store/db/pool.ts';
import { query, rowsOf, sql } from '../store/db/query.ts';
import { lag, partitionLags } from '../store/projecting/positions.ts';

export type Readiness = {
  readonly status: 'ready' | 'degraded' | 'not_ready';
  readonly database: 'ok' | 'unreachable';
  readonly schema: 'current' | 'behind' | 'newer' | 'changed' | 'unknown';
  /** replaced: another topic or broker answers under its name, and nothing is written to it. */
  readonly log: 'ok' | 'unreachable' | 'replaced';
  /** Events in the log that are not in the tables yet. */
  readonly lag_events: number | null;
  /** Warnings and errors. */
  readonly reasons: readonly string[];
  /** Records that were rejected in the last hour. Their senders caused them, so the server is ready all the same. */
  readonly dead_letters: readonly string[];
};

export type Asked = {
  readonly db: Db;
  readonly log: EventLog;
  readonly known: ReturnType<typeof readMigrations>;
  /** A process that only ingests into a log outside the database works without the database. */
  readonly ingestOnly: boolean;
};

/** Never throws: what cannot be reached is part of the result. */
export async function readiness({ db, log, known, ingestOnly }: Asked): Promise<Readiness> {
  const [own, { partitions: outer, why }] = await Promise.all([databaseState(db, known), outerLog(log)]);
  const reasons = [...own.reasons];
  if (why !== null) reasons.push(why.message);
  let lagEvents = own.lag;
  if (lagEvents !== null && outer !== null && outer.length > 0) {
    const lags = await partitionLags(db, log.name, outer).catch(() => null);
    lagEvents = lags === null ? null : lagEvents + lags.reduce((sum, one) => sum + one.lag, 0);
  }
  const needsDatabase = !(ingestOnly && log.partitions !== undefined);
  const works = outer !== null && (!needsDatabase || own.schema === 'current');
  return {
    status: !works ? 'not_ready' : reasons.length > 0 ? 'degraded' : 'ready',
    database: own.database,
    schema: own.schema,
    log: why === null ? 'ok' : why.code === 'log_replaced' ? 'replaced' : 'unreachable',
    lag_events: lagEvents,
    reasons,
    dead_letters: own.letters,
  };
}

/** Empty for the embedded log: the database is it. Null where the log does not answer. */
async function outerLog(log: EventLog) {
  try {
    return { partitions: (await log.partitions?.()) ?? [], why: null };
  } catch (error) {
    if (error instanceof TroupeError && error.code === 'log_replaced') return { partitions: null, why: error };
    const text = `The log ${log.name} cannot be reached; check the setting kafka_brokers.`;
    return { partitions: null, why: new TroupeError('unreachable', text, { cause: error }) };
  }
}

async function databaseState(db: Db, known: Asked['known']) {
  try {
    const { state } = await checkSchema(db, known);
    if (state !== 'current') return { database: 'ok', schema: state, lag: null, reasons: [], letters: [] } as const;
    return { database: 'ok', schema: state, lag: await lag(db), reasons: [], letters: await deadLetters(db) } as const;
  } catch (error) {
    const code = error instanceof TroupeError ? error.code : null;
    const schema = code === 'schema_newer' ? 'newer' : code === 'conflict' ? 'changed' : 'unknown';
    const away = schema === 'unknown';
    const reasons = away ? ['The database cannot be reached; check DATABASE_URL.'] : [];
    return { database: away ? 'unreachable' : 'ok', schema, lag: null, reasons, letters: [] } as const;
  }
}

/** Those of the last hour that were not replayed. */
async function deadLetters(db: Db): Promise<readonly string[]> {
  const rows = await rowsOf(
    db,
    query
      .selectFrom('troupe.dead_letters')
      .select(['door', 'code', sql<number>`count(*)::float8`.as('letters')])
      .where('last_at', '>', sql<string>`clock_timestamp() - interval '1 hour'`)
      .where('replayed_at', 'is', null)
      .groupBy(['door', 'code'])
      .orderBy('door')
      .orderBy('code')
      .limit(20),
  );
  return rows.map(
    ({ door, code, letters }) =>
      `${letters} dead letters of the last hour at ${door}: ${code}; \`troupe deadletters\` lists them.`,
  );
}
