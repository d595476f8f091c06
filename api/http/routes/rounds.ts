/**
 * The learning curve of a team: every release, in order, with what was measured of it, and with the numbers of the training of its
 * checkpoints. Their names are not fixed; the page shows those that it finds.
 */
import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import type { Db } from '../../../store/db/pool.ts';
import { query, rowsOf, type SqlBool, sql, typed } from '../../../store/db/query.ts';
import { documented } from '../openapi.ts';
import { readQuery } from '../query.ts';

const Query = Type.Object({
  policy: Type.Optional(Type.String({ description: 'only releases that name this policy' })),
});
const Round = Type.Object({
  round: Type.Integer({ description: 'place in order, from 0' }),
  release_id: Type.String(),
  name: Type.Union([Type.String(), Type.Null()], { description: 'why it was released' }),
  by: Type.Union([Type.String(), Type.Null()]),
  policies: Type.Record(Type.String(), Type.String()),
  metrics: Type.Record(Type.String(), Type.Number(), { description: 'what the gate, or who released, measured' }),
  training: Type.Record(Type.String(), Type.Number(), { description: 'numbers of the training of its checkpoints' }),
  released_at: Type.Union([Type.String(), Type.Null()]),
});
const Rounds = Type.Object({ items: Type.Array(Round) });

/** The newest so many releases are shown. */
const MOST = 1000;

export function roundRoutes(app: FastifyInstance, db: Db): void {
  app.get(
    '/v1/rounds',
    documented({
      summary: 'Releases with their numbers, oldest first.',
      large: true,
      tag: 'reads',
      scope: 'read',
      query: Query,
      answers: { 200: { about: 'the curve', schema: Rounds } },
    }),
    async (request) => {
      const { policy } = readQuery(request.query, Query);
      const rows = await rowsOf(
        db,
        query
          .selectFrom('facts.releases as r')
          .select(['r.release_id', 'r.reason as name', 'r.author as by', 'r.policies', 'r.metrics', 'r.released_at'])
          .select((release) =>
            release
              .selectFrom('traj.releases as t')
              .innerJoin('traj.checkpoints as c', 'c.checkpoint_id', 't.checkpoint_id')
              .whereRef('t.release_id', '=', 'r.release_id')
              .where('c.metrics', 'is not', null)
              .select(sql<unknown[] | null>`json_agg(c.metrics order by c.checkpoint_id)`.as('metrics'))
              .as('checkpoint_metrics'),
          )
          .$if(policy !== undefined, (releases) =>
            releases.where(sql<SqlBool>`r.policies ->> ${typed(policy!, 'text')} is not null`),
          )
          .orderBy(sql`coalesce(r.released_at, '-infinity'::timestamptz)`, 'desc')
          .orderBy('r.release_id', 'desc')
          .limit(MOST),
      );
      const items = rows.reverse().map(({ checkpoint_metrics, metrics, ...row }, round) => ({
        round,
        ...row,
        metrics: numbersIn(metrics),
        training: Object.assign({}, ...(checkpoint_metrics ?? []).map((value) => numbersIn(value))) as Record<
          string,
          number
        >,
      }));
      return { items };
    },
  );
}

/** The numbers in a plain value, nested ones under a dotted name. */
function numbersIn(value: unknown, prefix = ''): Record<string, number> {
  if (typeof value === 'number') return { [prefix]: value };
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return {};
  const entries = Object.entries(value).map(([name, member]) =>
    numbersIn(member, prefix === '' ? name : `${prefix}.${name}`),
  );
  return Object.assign({}, ...entries) as Record<string, number>;
}
