/** Ancestors and descendants of a checkpoint, dataset, episode or other thing. */
import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import { got, TroupeError } from '../../../errors.ts';
import type { Db } from '../../../store/db/pool.ts';
import { LINEAGE_LIMIT, lineageOf } from '../../../store/explore/lineage.ts';
import { documented } from '../openapi.ts';
import { readId, readQuery } from '../query.ts';

const Query = Type.Object({
  depth: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 10,
      description: `how many relations are followed each way; default 2. A tree lists at most ${LINEAGE_LIMIT} things; cut says where it ends early`,
    }),
  ),
});

export function lineageRoutes(app: FastifyInstance, db: Db): void {
  app.get<{ Params: { id: string } }>(
    '/v1/lineage/:id',
    documented({
      large: true,
      summary:
        'What an episode, step, dataset, row of a dataset or checkpoint comes from, and what was made of it, as trees.',
      tag: 'reads',
      scope: 'read',
      query: Query,
      answers: {
        200: {
          about: 'a tree each way for each thing of that id',
          schema: Type.Object({}, { additionalProperties: true }),
        },
      },
    }),
    async (request) => {
      const id = readId(request.params.id);
      const depth = readQuery(request.query, Query).values.depth ?? 2;
      const found = await db.transaction((tx) => lineageOf(tx, id, depth), {
        isolation: 'repeatable read',
        readOnly: true,
      });
      if (found.length === 0) {
        throw new TroupeError('not_found', `There is no episode, step, dataset, row or checkpoint ${got(id)}.`, {
          field: 'id',
          got: got(id),
          hint: 'The / in the id of a step or row is written %2F in the path. New events take a moment to appear.',
        });
      }
      return { found };
    },
  );
}
