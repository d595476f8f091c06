/** Checkpoints, releases, jobs and datasets: newest first, page by page. */
import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import { got, TroupeError } from '../../../errors.ts';
import type { Db } from '../../../store/db/pool.ts';
import { firstOf, query, type SelectQueryBuilder, sql } from '../../../store/db/query.ts';
import { unknownValues } from '../../../store/filter/filter-check.ts';
import type { FieldFacts, FieldKind } from '../../../store/filter/filter-fields.ts';
import { type Comparison, type Filter, lowerOver, parseFilter } from '../../../store/filter/select.ts';
import { requireReleasedTeam } from '../../../store/loop/team/version.ts';
import { canaryTeam } from '../../../trainer/loop/comparison/canary-traffic.ts';
import { asParameter, FILTER, readFiltered } from '../filter.ts';
import { documented } from '../openapi.ts';
import { PAGE, readId, readQuery } from '../query.ts';
import { type Order, type Page, readPage } from '../rows.ts';

export const Rows = Type.Object({
  items: Type.Array(Type.Object({}, { additionalProperties: true })),
  next: Type.Union([Type.String(), Type.Null()], {
    description: 'pass it as `after` for the next page; null on the last',
  }),
  warnings: Type.Optional(
    Type.Array(Type.String(), {
      description: 'a sentence for each value of `filter`, or of the parameters of an empty list, that nothing has',
    }),
  ),
});

const columns = (kind: FieldKind, ...names: readonly string[]) =>
  names.map((name): readonly [string, FieldFacts] => [name, { scope: 'episode', kind, sql: name }]);

const PLAYED = Type.Object(
  {
    episode: Type.Optional(Type.String({ description: 'id of the live episode that it is for' })),
    group: Type.Optional(Type.String({ description: 'its group, whose episodes play in one version' })),
  },
  { additionalProperties: false },
);

const LISTS = [
  {
    url: '/v1/checkpoints',
    summary: 'Weights with their lineage.',
    list: query
      .selectFrom('traj.checkpoints')
      .select(['checkpoint_id', 'parent_id', 'policy', 'uri', 'sha256', 'step', 'dataset_ids', 'job_id', 'kept'])
      .select(['metrics', 'code_version', 'saved_at']),
    rows: 'traj.checkpoints',
    time: 'saved_at',
    id: 'checkpoint_id',
    fields: new Map<string, FieldFacts>([
      ...columns('text', 'checkpoint_id', 'parent_id', 'policy', 'job_id', 'code_version'),
      ...columns('integer', 'step'),
      ...columns('boolean', 'kept'),
      ...columns('time', 'saved_at'),
    ]),
    filters: ['policy', 'job_id', 'parent_id'],
  },
  {
    url: '/v1/releases',
    summary: 'The checkpoint of each policy, and since when.',
    list: query
      .selectFrom('facts.releases')
      .select(['release_id', 'policies', 'teams', 'reason', 'author as by', 'metrics', 'released_at']),
    rows: 'facts.releases',
    time: 'released_at',
    id: 'release_id',
    fields: new Map<string, FieldFacts>([
      ...columns('text', 'release_id', 'reason'),
      ['by', { scope: 'episode', kind: 'text', sql: 'author' }],
      ...columns('time', 'released_at'),
    ]),
    filters: [],
  },
  {
    url: '/v1/jobs',
    summary: 'Training runs and other work.',
    list: query
      .selectFrom('traj.jobs')
      .select(['job_id', 'kind', 'state', 'outcome', 'plan', 'parent_job_id', 'spec', 'result', 'error', 'worker'])
      .select(['requested_at', 'started_at', 'finished_at']),
    rows: 'traj.jobs',
    time: 'requested_at',
    id: 'job_id',
    fields: new Map<string, FieldFacts>([
      ...columns('text', 'job_id', 'kind', 'state', 'outcome', 'plan', 'parent_job_id', 'worker'),
      ...columns('time', 'requested_at', 'started_at', 'finished_at'),
    ]),
    filters: ['kind', 'state', 'outcome', 'plan'],
  },
  {
    url: '/v1/datasets',
    summary: 'Frozen recipes.',
    list: query.selectFrom('traj.datasets').select(['dataset_id', 'name', 'sha256', 'uri', 'frozen_at']),
    rows: 'traj.datasets',
    time: 'frozen_at',
    id: 'dataset_id',
    fields: new Map<string, FieldFacts>([
      ...columns('text', 'dataset_id', 'name', 'sha256', 'uri'),
      ...columns('time', 'frozen_at'),
    ]),
    filters: ['name'],
  },
] as const;

/** A page, and where it has no row a sentence for each of these values that nothing has. */
export async function withUnknown(
  page: Page,
  asked: readonly (readonly [field: string, value: unknown])[],
  unknown: (filter: Filter) => Promise<readonly string[]>,
) {
  if (page.items.length > 0) return page;
  const and = asked.flatMap(([field, value]) => (value === undefined ? [] : [{ field, op: '=', value } as Comparison]));
  const warnings = await unknown({ and });
  return warnings.length === 0 ? page : { ...page, warnings };
}

export function listRoutes(app: FastifyInstance, db: Db): void {
  for (const { url, summary, filters, fields, rows, time, id, ...route } of LISTS) {
    const searched = { fields, rows: { episode: rows, step: rows } };
    const list = route.list as unknown as SelectQueryBuilder<object, never, Record<string, unknown>>;
    const asked = Type.Object({
      ...PAGE,
      filter: FILTER,
      ...Object.fromEntries(
        filters.map((name) => [name, Type.Optional(Type.String({ description: `only rows with this ${name}` }))]),
      ),
    });
    app.get(
      url,
      documented({
        summary,
        tag: 'reads',
        scope: 'read',
        query: asked,
        answers: { 200: { about: 'one page, newest first', schema: Rows } },
      }),
      async (request) => {
        const values = readQuery(request.query, asked).values as Record<string, string | number | undefined>;
        const chosen = filters.reduce(
          (rows, name) => (values[name] === undefined ? rows : rows.where(sql.ref(name), '=', values[name])),
          list,
        );
        const order: Order = { time: sql.ref(time), id: sql.ref(id) };
        const page = { limit: values.limit as number | undefined, after: values.after as string | undefined };
        if (values.filter === undefined)
          return withUnknown(
            await readPage(db, chosen, order, page),
            filters.map((name) => [name, values[name]]),
            (asked) => unknownValues(db, asked, searched),
          );
        const filter = await asParameter(() => parseFilter(values.filter, 'filter', 0, fields));
        return readFiltered(db, async (tx) => ({
          ...(await readPage(tx, chosen.where(lowerOver(filter, fields)), order, page)),
          warnings: await unknownValues(tx, filter, searched),
        }));
      },
    );
  }

  app.get<{ Params: { readonly id: string } }>(
    '/v1/teams/:id',
    documented({
      summary:
        'The version of a team, by its name, that its program plays in: the released one, or for an episode in the share of a canary its candidate.',
      tag: 'reads',
      scope: 'read',
      query: PLAYED,
      answers: { 200: { about: 'team_id, name, definition' }, 404: { about: 'no version of it is released' } },
    }),
    async (request) => {
      const name = readId(request.params.id);
      const { episode, group = null } = readQuery(request.query, PLAYED).values;
      const compared = episode === undefined ? null : await canaryTeam(db, { name, episode, group });
      return compared ?? db.transaction((tx) => requireReleasedTeam(tx, name));
    },
  );

  app.get<{ Params: { readonly id: string } }>(
    '/v1/datasets/:id',
    documented({
      summary: 'One dataset with its manifest.',
      tag: 'reads',
      scope: 'read',
      answers: { 200: { about: 'recipe, positions, hashes, funnel' } },
    }),
    async (request) => {
      const id = readId(request.params.id);
      const dataset = await firstOf(
        db,
        query
          .selectFrom('traj.datasets')
          .select(['dataset_id', 'name', 'sha256', 'uri', 'manifest', 'frozen_at'])
          .where('dataset_id', '=', id),
      );
      if (dataset) return dataset;
      throw new TroupeError('not_found', `There is no dataset ${got(id)}.`, {
        field: 'id',
        got: got(id),
        hint: 'GET /v1/datasets lists them.',
      });
    },
  );
}
