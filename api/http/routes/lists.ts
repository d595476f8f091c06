/** Checkpoints: newest first, page by page. */
import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import type { Db } from '../../../store/db/pool.ts';
import { query, type SelectQueryBuilder, sql } from '../../../store/db/query.ts';
import { unknownValues } from '../../../store/filter/filter-check.ts';
import type { FieldFacts, FieldKind } from '../../../store/filter/filter-fields.ts';
import { lowerOver, parseFilter } from '../../../store/filter/select.ts';
import { filter, listInput } from '../../operations/lists.ts';
import { shownSchema } from '../../operations/operation.ts';
import { asParameter, readFiltered, readList, withUnknown } from '../../operations/read-list.ts';
import { documented } from '../openapi.ts';
import { readQuery } from '../query.ts';

const PAGE_SIZE = 50;
const PAGE = listInput(['time'], PAGE_SIZE);

const Rows = Type.Object({
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
] as const;

export function listRoutes(app: FastifyInstance, db: Db): void {
  for (const { url, summary, filters, fields, rows, time, id, ...route } of LISTS) {
    const searched = { fields, rows: { episode: rows, step: rows } };
    const list = route.list as unknown as SelectQueryBuilder<object, never, Record<string, unknown>>;
    const asked = Type.Object({
      limit: PAGE.limit,
      after: PAGE.after,
      filter: Type.Optional(shownSchema(filter)),
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
        const values = readQuery(request.query, asked) as Record<string, string | number | undefined>;
        const chosen = filters.reduce(
          (rows, name) => (values[name] === undefined ? rows : rows.where(sql.ref(name), '=', values[name])),
          list,
        );
        const order = { columns: { [time]: 'timestamptz' }, id } as const;
        const { limit = PAGE_SIZE, after } = values as { readonly limit?: number; readonly after?: string };
        const page = { sort: `-${time}`, limit, after };
        if (values.filter === undefined)
          return withUnknown(
            await readList(db, chosen, order, page),
            filters.map((name) => [name, values[name]]),
            (asked) => unknownValues(db, asked, searched),
          );
        const chosenBy = await asParameter(() => parseFilter(values.filter, 'filter', 0, fields));
        return readFiltered(db, async (tx) => ({
          ...(await readList(tx, chosen.where(lowerOver(chosenBy, fields)), order, page)),
          warnings: await unknownValues(tx, chosenBy, searched),
        }));
      },
    );
  }
}
