/** Liveness, readiness and metrics of this process. */
import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import type { EventLog } from '../../../ingest/log/log.ts';
import { readSchema } from '../../../migrations/migrate.ts';
import type { Db } from '../../../store/db/pool.ts';
import { projectMetrics, prometheusText } from '../../health/metrics.ts';
import { processMetrics } from '../../health/prometheus.ts';
import { readiness } from '../../health/readiness.ts';
import { documented } from '../openapi.ts';

const Health = Type.Object({ status: Type.Literal('ok'), version: Type.String(), project: Type.String() });
const Ready = Type.Object({
  status: Type.Enum(['ready', 'degraded', 'not_ready']),
  database: Type.Enum(['ok', 'unreachable']),
  schema: Type.Enum(['current', 'compatible', 'behind', 'newer', 'changed', 'unknown']),
  log: Type.Enum(['ok', 'unreachable', 'replaced']),
  lag_events: Type.Union([Type.Integer(), Type.Null()], {
    description: 'events in the log that are not in the tables yet',
  }),
  reasons: Type.Array(Type.String(), { description: 'warnings and errors' }),
  dead_letters: Type.Array(Type.String(), {
    description:
      'records rejected in the last hour, and events that wait for a newer Troupe; the server is ready all the same',
  }),
  serving: Type.Array(
    Type.Object({
      process: Type.String(),
      policy: Type.String(),
      checkpoint: Type.Union([Type.String(), Type.Null()]),
      released: Type.Union([Type.String(), Type.Null()]),
      late: Type.Boolean({ description: 'it should serve what was released by now' }),
    }),
    { description: 'sampling processes, with the checkpoint that each answers with and the one that was released' },
  ),
});

export function healthRoutes(
  app: FastifyInstance,
  {
    db,
    log,
    ingestOnly,
    version,
    project,
  }: {
    readonly db: Db;
    readonly log: EventLog;
    readonly ingestOnly: boolean;
    readonly version: string;
    readonly project: string;
  },
): void {
  const known = readSchema();

  app.get(
    '/healthz',
    documented({
      summary: 'Liveness of the process.',
      tag: 'health',
      scope: null,
      answers: { 200: { about: 'the process is alive', schema: Health } },
    }),
    async () => ({ status: 'ok', version, project }),
  );

  app.get(
    '/readyz',
    documented({
      summary: 'Readiness of the process; degraded: it works, with warnings in `reasons`.',
      tag: 'health',
      scope: 'read',
      answers: { 200: { about: 'ready or degraded', schema: Ready }, 503: { about: 'not ready', schema: Ready } },
    }),
    async (_request, reply) => {
      const state = await readiness({ db, log, known, ingestOnly });
      return reply.code(state.status === 'not_ready' ? 503 : 200).send(state);
    },
  );

  app.get(
    '/metrics',
    documented({
      summary: 'Counts of ingestion endpoints, lag, dead letters, jobs, sizes, requests, and the process itself.',
      tag: 'health',
      scope: 'read',
      answers: { 200: { about: 'Prometheus text', type: 'text/plain' } },
    }),
    async (_request, reply) =>
      reply.header('content-type', 'text/plain; version=0.0.4; charset=utf-8').send(
        // One process exports the counts of the database, or sums over processes would be wrong.
        prometheusText(ingestOnly ? [] : await projectMetrics(db, log)) + (await processMetrics()),
      ),
  );
}
