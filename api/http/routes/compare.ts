/** Two checkpoints, models or teams on the tasks that both tried. */
import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import type { Db } from '../../../store/db/pool.ts';
import { compare } from '../../../store/explore/comparing/compare.ts';
import { documented } from '../openapi.ts';
import { readQuery } from '../query.ts';

const Query = Type.Object({
  first: Type.String({
    description: 'a checkpoint or team by its id, a team by its name, or a model as its calls name it',
  }),
  second: Type.String({ description: 'compared with the first: differences are second minus first' }),
});

export function compareRoutes(app: FastifyInstance, db: Db): void {
  app.get(
    '/v1/compare',
    documented({
      large: true,
      summary: 'Two checkpoints, models or teams on the tasks that both tried, with intervals over tasks.',
      tag: 'reads',
      scope: 'read',
      query: Query,
      answers: { 200: { about: 'the comparison', schema: Type.Object({}, { additionalProperties: true }) } },
    }),
    async (request) => {
      const { first, second } = readQuery(request.query, Query).values;
      return compare(db, first!, second!);
    },
  );
}
