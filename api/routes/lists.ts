/** Checkpoints, releases, jobs and datasets: newest first, page by page. */
import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import { got, TroupeError } from '../../errors.ts';
import type { Db } from '../../store/db/pool.ts';
import { documented } from '../openapi.ts';
import { PAGE, readId, readQuery } from '../query.ts';
import { equals, type Listing, readPage } from '../rows.ts';

export const Rows = Type.Object({
  items: Type.Array(Type.Object({}, { additionalProperties: true })),
  next: Type.Union([Type.String(), Type.Null()], {
    description: 'give it as `after` for the next page; null on the last',
  }),
});

type ListRoute = Listing & { readonly url: string; readonly summary: string; readonly filters: readonly string[] };

const LISTS: readonly ListRoute[] = [
  {
    url: '/v1/checkpoints',
    summary: 'Weights with their lineage.',
    from: 'traj.checkpoints',
    columns: [
      'checkpoint_id',
      'parent_id',
      'policy',
      'uri',
      'sha256',
      'step',
      'dataset_ids',
      'job_id',
      'kept',
      'metrics',
      'code_version',
      'saved_at',
    ],
    time: 'saved_at',
    id: 'checkpoint_id',
    filters: ['policy', 'job_id', 'parent_id'],
  },
  {
    url: '/v1/releases',
    summary: 'Which checkpoint each policy was given, and when.',
    from: 'facts.releases',
    columns: ['release_id', 'policies', 'reason', '"by"', 'metrics', 'released_at'],
    time: 'released_at',
    id: 'release_id',
    filters: [],
  },
  {
    url: '/v1/jobs',
    summary: 'Training runs and other work.',
    from: 'traj.jobs',
    columns: [
      'job_id',
      'kind',
      'state',
      'outcome',
      'plan',
      'parent_job_id',
      'spec',
      'result',
      'error',
      'worker',
      'requested_at',
      'started_at',
      'finished_at',
    ],
    time: 'requested_at',
    id: 'job_id',
    filters: ['kind', 'state', 'outcome', 'plan'],
  },
  {
    url: '/v1/datasets',
    summary: 'Frozen recipes.',
    from: 'traj.datasets',
    columns: ['dataset_id', 'name', 'sha256', 'uri', 'frozen_at'],
    time: 'frozen_at',
    id: 'dataset_id',
    filters: ['name'],
  },
];

export function listRoutes(app: FastifyInstance, db: Db): void {
  for (const { url, summary, filters, ...listing } of LISTS) {
    const query = Type.Object({
      ...PAGE,
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
        query,
        answers: { 200: { about: 'one page, newest first', schema: Rows } },
      }),
      async (request) => {
        const values = readQuery(request.query, query).values as Record<string, string | number | undefined>;
        const conditions = filters.flatMap((name) => (values[name] === undefined ? [] : [equals(name, values[name])]));
        return readPage(
          db,
          listing,
          { limit: values.limit as number | undefined, after: values.after as string | undefined },
          conditions,
        );
      },
    );
  }

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
      const { rows } = await db.query(
        'select dataset_id, name, sha256, uri, manifest, frozen_at from traj.datasets where dataset_id = $1',
        [id],
      );
      if (rows[0]) return rows[0];
      throw new TroupeError('not_found', `There is no dataset ${got(id)}.`, {
        field: 'id',
        got: got(id),
        hint: 'GET /v1/datasets lists them.',
      });
    },
  );
}
