/** One episode with all its data. */
import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import { got, TroupeError } from '../../../errors.ts';
import type { Db } from '../../../store/db/pool.ts';
import { MOST, readEpisodePage } from '../../../store/explore/episodes/read-page.ts';
import { documented } from '../openapi.ts';
import { readId, readQuery } from '../query.ts';

const One = Type.Object({
  after: Type.Optional(Type.String({ maxLength: 4096, description: 'the `next` of the page before' })),
  tokens: Type.Optional(Type.Boolean({ description: 'true: steps with token ids and log-probabilities' })),
});
const Episode = Type.Object({
  episode: Type.Object({}, { additionalProperties: true }),
  task: Type.Union([Type.Object({}, { additionalProperties: true }), Type.Null()]),
  agents: Type.Array(Type.Unknown()),
  conversation: Type.Array(Type.Unknown(), {
    description:
      'calls, messages, tool calls and decisions in order; a call has what is new in its prompt, and its candidates',
  }),
  steps: Type.Array(Type.Unknown(), { description: 'of the calls of this page' }),
  tool_calls: Type.Array(Type.Unknown()),
  feedback: Type.Array(Type.Unknown(), { description: 'on the first page, like all other data of the episode' }),
  matrices: Type.Array(Type.Unknown(), { description: 'execution matrices: programs, tests, pass' }),
  verdicts: Type.Array(Type.Unknown()),
  scores: Type.Array(Type.Unknown()),
  rewards: Type.Array(Type.Unknown()),
  credits: Type.Array(Type.Unknown()),
  blames: Type.Array(Type.Unknown()),
  truncated: Type.Array(Type.String(), { description: `lists that were cut at ${MOST} rows or 2 MiB` }),
  next: Type.Union([Type.String(), Type.Null()], {
    description: 'the `after` of the next page; a page ends after 2 MiB of conversation',
  }),
});

export function episodeRoutes(app: FastifyInstance, db: Db): void {
  app.get<{ Params: { readonly id: string } }>(
    '/v1/episodes/:id',
    documented({
      summary: 'One episode as a conversation, with its judgements.',
      large: true,
      tag: 'reads',
      scope: 'read',
      query: One,
      answers: { 200: { about: 'the episode', schema: Episode } },
    }),
    async (request) => {
      const id = readId(request.params.id);
      const { tokens, after } = readQuery(request.query, One);
      const page = await readEpisodePage(db, id, { tokens, after });
      if (page) return page;
      throw new TroupeError('not_found', `There is no episode ${got(id)}.`, {
        field: 'id',
        got: got(id),
        hint: 'GET /v1/episodes lists them; new events take a moment to appear.',
      });
    },
  );
}
