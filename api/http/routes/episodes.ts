/** Episodes: a list that can be filtered, and one episode with all its data. */
import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import { got, TroupeError } from '../../../errors.ts';
import type { Db } from '../../../store/db/pool.ts';
import { query, type SqlBool, sql } from '../../../store/db/query.ts';
import { MOST, readEpisodePage } from '../../../store/explore/episodes/read-page.ts';
import { episodesMeeting, readEpisodeFilter } from '../../../store/filter/episode-filter.ts';
import { unknownValues } from '../../../store/filter/filter-check.ts';
import { tagReads } from '../../../store/filter/select.ts';
import { asParameter, FILTER, readFiltered } from '../filter.ts';
import { documented } from '../openapi.ts';
import { PAGE, readId, readQuery } from '../query.ts';
import { type Order, readPage } from '../rows.ts';
import { Rows, withUnknown } from './lists.ts';

const FILTERS = ['task_id', 'group_id', 'team_id', 'session_id', 'outcome'] as const;
const Query = Type.Object({
  ...PAGE,
  task_id: Type.Optional(Type.String({ description: 'only episodes of this task' })),
  group_id: Type.Optional(Type.String({ description: 'only episodes of this group' })),
  team_id: Type.Optional(Type.String({ description: 'only episodes of this team' })),
  session_id: Type.Optional(Type.String({ description: 'only episodes of this session' })),
  outcome: Type.Optional(Type.String({ description: 'success, failure, error, timeout, aborted, unknown' })),
  closed: Type.Optional(Type.Boolean({ description: 'true: only episodes that ended' })),
  filter: FILTER,
  'tag.KEY': Type.Optional(Type.String({ description: 'only episodes whose tag KEY has this value' })),
});
const One = Type.Object({
  after: PAGE.after,
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

const LIST = query
  .selectFrom('traj.episodes as e')
  .select(['episode_id', 'task_id'])
  .select((episode) =>
    episode
      .selectFrom('traj.tasks as t')
      .whereRef('t.task_id', '=', 'e.task_id')
      .select(sql<string | null>`left(t.query, 300)`.as('query'))
      .as('task'),
  )
  .select(['attempt', 'group_id', 'team_id', 'outcome', 'reward', 'closed', 'agents', 'calls', 'steps', 'tool_calls'])
  .select(['feedback', 'input_tokens', 'output_tokens', 'started_at', 'finished_at', 'last_at', 'stop_reason'])
  .select(['tags', 'flags']);
const ORDER: Order = { time: sql`coalesce(started_at, last_at)`, id: sql`episode_id` };

export function episodeRoutes(app: FastifyInstance, db: Db): void {
  app.get(
    '/v1/episodes',
    documented({
      summary: 'Episodes, newest first.',
      tag: 'reads',
      scope: 'read',
      query: Query,
      answers: { 200: { about: 'one page', schema: Rows } },
    }),
    async (request) => {
      const { values, tags } = readQuery(request.query, Query);
      const { limit, after, closed, filter } = values;
      let list = LIST;
      for (const name of FILTERS) if (values[name] !== undefined) list = list.where(name, '=', values[name]);
      if (closed !== undefined) list = list.where(sql<SqlBool>`coalesce(closed, false) = ${closed}`);
      for (const [key, value] of Object.entries(tags)) list = list.where(tagReads('tags', key, value));
      if (filter === undefined)
        return withUnknown(
          await readPage(db, list, ORDER, { limit, after }),
          [
            ...FILTERS.map((name) => [name, values[name]] as const),
            ...Object.entries(tags).map(([key, value]) => [`tags.${key}`, value] as const),
          ],
          (asked) => unknownValues(db, asked),
        );
      return readFiltered(db, async (tx) => {
        const chosen = await asParameter(() => readEpisodeFilter(tx, filter, 'filter'));
        const page = await readPage(tx, list.where('episode_id', 'in', episodesMeeting(chosen.filter)), ORDER, {
          limit,
          after,
        });
        return { ...page, warnings: chosen.warnings };
      });
    },
  );

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
      const { tokens, after } = readQuery(request.query, One).values;
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
