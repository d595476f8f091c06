/** Images and files in messages, as bytes. */
import type { FastifyInstance } from 'fastify';
import { got, TroupeError } from '../../../errors.ts';
import type { Db } from '../../../store/db/pool.ts';
import { readArtifact } from '../../../store/explore/episodes/artifact.ts';
import { documented } from '../openapi.ts';
import { readId } from '../query.ts';

/** What a browser shows without running anything. The rest, SVG and HTML among it, is only downloaded. */
const SHOWN: ReadonlySet<string> = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp']);

export function artifactRoutes(app: FastifyInstance, db: Db): void {
  app.get<{ Params: { id: string } }>(
    '/v1/artifacts/:id',
    documented({
      large: true,
      summary: 'An image or a file in messages, by the id that they show and traj.artifacts lists.',
      tag: 'reads',
      scope: 'read',
      answers: { 200: { about: 'the bytes', type: 'application/octet-stream', others: [...SHOWN] } },
    }),
    async (request, reply) => {
      const id = readId(request.params.id);
      const found = await readArtifact(db, id);
      if (found === null)
        throw new TroupeError('not_found', `No message shows an artifact ${got(id)}.`, {
          field: 'id',
          expected: 'the artifact_id of an image or file in traj.artifacts',
          got: got(id),
        });
      const shown = SHOWN.has(found.media_type);
      return reply
        .headers({
          'content-type': shown ? found.media_type : 'application/octet-stream',
          'content-disposition': shown ? 'inline' : 'attachment',
          'content-security-policy': "default-src 'none'; sandbox",
          'x-content-type-options': 'nosniff',
        })
        .send(found.bytes);
    },
  );
}
