/** Whether this process lives, whether it can do its work, and its numbers. */
import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import { TroupeError } from '../../errors.ts';
import type { Redactor } from '../../ingest/redact.ts';
import { checkSchema, readMigrations } from '../../migrations/migrate.ts';
import type { Db } from '../../store/db/pool.ts';
import { lag } from '../../store/positions.ts';
import { projectMetrics, prometheusText, type RequestCounts, redactionMetrics } from '../metrics.ts';
import { documented } from '../openapi.ts';

const Health = Type.Object({ status: Type.Literal('ok'), version: Type.String(), project: Type.String() });
const Ready = Type.Object({
  status: Type.Enum(['ready', 'degraded', 'not_ready']),
  reasons: Type.Array(Type.String(), { description: 'why it is degraded' }),
  database: Type.Enum(['ok', 'unreachable']),
  schema: Type.Enum(['current', 'behind', 'newer', 'changed', 'unknown']),
  lag_events: Type.Union([Type.Integer(), Type.Null()], {
    description: 'events in the log that are not in the tables yet',
  }),
});

export function healthRoutes(
  app: FastifyInstance,
  {
    db,
    version,
    project,
    counts,
    redactor,
  }: {
    readonly db: Db;
    readonly version: string;
    readonly project: string;
    readonly counts: RequestCounts;
    readonly redactor: Redactor | null;
  },
): void {
  const known = readMigrations();

  app.get(
    '/healthz',
    documented({
      summary: 'The process answers.',
      tag: 'health',
      scope: null,
      answers: { 200: { about: 'it does', schema: Health } },
    }),
    async () => ({ status: 'ok', version, project }),
  );

  app.get(
    '/readyz',
    documented({
      summary: 'The database is reachable and its schema is this version’s; degraded while records are refused.',
      tag: 'health',
      scope: 'read',
      answers: { 200: { about: 'ready', schema: Ready }, 503: { about: 'not ready', schema: Ready } },
    }),
    async (_request, reply) => {
      const state = await readiness(db, known);
      return reply.code(state.status === 'not_ready' ? 503 : 200).send(state);
    },
  );

  app.get(
    '/metrics',
    documented({
      summary: 'Counts at the doors, lag, dead letters, requests.',
      tag: 'health',
      scope: 'read',
      answers: { 200: { about: 'Prometheus text', type: 'text/plain' } },
    }),
    async (_request, reply) =>
      reply
        .header('content-type', 'text/plain; version=0.0.4; charset=utf-8')
        .send(prometheusText([...(await projectMetrics(db)), ...counts.read(), ...redactionMetrics(redactor)])),
  );
}

/** Records refused within so many minutes and not replayed are news; older ones are the page's and the metrics' to show. */
const FRESH_MINUTES = 60;

async function worries(db: Db): Promise<string[]> {
  const { rows } = await db.query<{ code: string; letters: number }>(
    `select code, count(*)::integer as letters from troupe.dead_letters
     where replayed_at is null and last_at > clock_timestamp() - make_interval(mins => $1) group by code order by code`,
    [FRESH_MINUTES],
  );
  return rows.map(({ code, letters }) => `${letters} dead letters within ${FRESH_MINUTES} minutes: ${code}`);
}

async function readiness(db: Db, known: ReturnType<typeof readMigrations>) {
  try {
    const { state } = await checkSchema(db, known);
    const behind = state === 'current' ? await lag(db) : null;
    const reasons = state === 'current' ? await worries(db) : [];
    const well = reasons.length === 0 ? 'ready' : 'degraded';
    return {
      status: state === 'current' ? well : 'not_ready',
      reasons,
      database: 'ok',
      schema: state,
      lag_events: behind,
    } as const;
  } catch (error) {
    const code = error instanceof TroupeError ? error.code : null;
    const schema = code === 'schema_newer' ? 'newer' : code === 'conflict' ? 'changed' : 'unknown';
    return {
      status: 'not_ready',
      reasons: [],
      database: schema === 'unknown' ? 'unreachable' : 'ok',
      schema,
      lag_events: null,
    } as const;
  }
}
