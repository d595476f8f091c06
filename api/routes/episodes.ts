/** Episodes: a list that can be filtered, and one of them with everything that is known about it. */
import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import { got, TroupeError } from '../../errors.ts';
import type { Db } from '../../store/db/pool.ts';
import {
  type Compilable,
  firstOf,
  type OrderByItemBuilder,
  query,
  rowsOf,
  type SqlBool,
  sql,
  typed,
} from '../../store/db/query.ts';
import { conversation } from '../conversation.ts';
import { matricesOf } from '../executions.ts';
import { documented } from '../openapi.ts';
import { PAGE, readId, readQuery } from '../query.ts';
import { type Order, readPage } from '../rows.ts';
import { Rows } from './lists.ts';

const FILTERS = ['task_id', 'group_id', 'team_id', 'session_id', 'outcome'] as const;
const Query = Type.Object({
  ...PAGE,
  task_id: Type.Optional(Type.String({ description: 'only episodes of this task' })),
  group_id: Type.Optional(Type.String({ description: 'only episodes of this group' })),
  team_id: Type.Optional(Type.String({ description: 'only episodes of this team' })),
  session_id: Type.Optional(Type.String({ description: 'only episodes of this session' })),
  outcome: Type.Optional(Type.String({ description: 'success, failure, error, timeout, aborted, unknown' })),
  closed: Type.Optional(Type.Boolean({ description: 'true: only episodes that ended' })),
  'tag.KEY': Type.Optional(Type.String({ description: 'only episodes whose tag KEY has this value' })),
});
const One = Type.Object({
  tokens: Type.Optional(Type.Boolean({ description: 'true: steps with token ids and log-probabilities' })),
});
const Episode = Type.Object({
  episode: Type.Object({}, { additionalProperties: true }),
  task: Type.Union([Type.Object({}, { additionalProperties: true }), Type.Null()]),
  agents: Type.Array(Type.Unknown()),
  conversation: Type.Array(Type.Unknown(), { description: 'what was said, in order' }),
  steps: Type.Array(Type.Unknown()),
  tool_calls: Type.Array(Type.Unknown()),
  feedback: Type.Array(Type.Unknown()),
  matrices: Type.Array(Type.Unknown(), { description: 'execution matrices: programs, tests, pass' }),
  verdicts: Type.Array(Type.Unknown()),
  scores: Type.Array(Type.Unknown()),
  rewards: Type.Array(Type.Unknown()),
  credits: Type.Array(Type.Unknown()),
  blames: Type.Array(Type.Unknown()),
  truncated: Type.Array(Type.String(), { description: `lists that were cut at ${10_000} rows` }),
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

/** Rows of one list of one episode; more of them are cut, and the answer says so. */
const MOST = 10_000;

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
      const { limit, after, closed } = values;
      let list = LIST;
      for (const name of FILTERS) if (values[name] !== undefined) list = list.where(name, '=', values[name]);
      if (closed !== undefined) list = list.where(sql<SqlBool>`coalesce(closed, false) = ${closed}`);
      for (const [key, value] of Object.entries(tags))
        list = list.where(sql<SqlBool>`tags ->> ${typed(key, 'text')} = ${value}`);
      return readPage(db, list, ORDER, { limit, after });
    },
  );

  app.get<{ Params: { readonly id: string } }>(
    '/v1/episodes/:id',
    documented({
      summary: 'One episode as a conversation, with what was judged of it.',
      large: true,
      tag: 'reads',
      scope: 'read',
      query: One,
      answers: { 200: { about: 'the episode', schema: Episode } },
    }),
    async (request) => readEpisode(db, readId(request.params.id), readQuery(request.query, One).values.tokens ?? false),
  );
}

async function readEpisode(db: Db, id: string, tokens: boolean): Promise<Record<string, unknown>> {
  const episode = await firstOf(db, query.selectFrom('traj.episodes').selectAll().where('episode_id', '=', id));
  if (!episode) {
    const detail = {
      field: 'id',
      got: got(id),
      hint: 'GET /v1/episodes lists them; new events take a moment to appear.',
    };
    throw new TroupeError('not_found', `There is no episode ${got(id)}.`, detail);
  }
  const truncated: string[] = [];
  const read = async <One>(name: string, list: { limit(most: number): Compilable<One> }): Promise<readonly One[]> => {
    const rows = await rowsOf(db, list.limit(MOST + 1));
    if (rows.length > MOST) truncated.push(name);
    return rows.slice(0, MOST);
  };
  const [
    task,
    agents,
    messages,
    steps,
    toolCalls,
    decisions,
    feedback,
    cells,
    verdicts,
    scores,
    rewards,
    credits,
    blames,
  ] = await Promise.all([
    episode.task_id === null
      ? []
      : rowsOf(db, query.selectFrom('traj.tasks').selectAll().where('task_id', '=', episode.task_id)),
    read('agents', query.selectFrom('traj.agents').selectAll().where('episode_id', '=', id).orderBy('agent_id')),
    read(
      'messages',
      query
        .selectFrom('traj.messages')
        .selectAll()
        .where('episode_id', '=', id)
        .orderBy('at', nullsLast)
        .orderBy('seq', nullsLast)
        .orderBy('call_id')
        .orderBy('place')
        .orderBy('message_id'),
    ),
    read('steps', stepsOf(id, tokens)),
    read(
      'tool_calls',
      query
        .selectFrom('traj.tool_calls')
        .selectAll()
        .where('episode_id', '=', id)
        .orderBy('seq', nullsLast)
        .orderBy('called_at', nullsLast)
        .orderBy('tool_call_id'),
    ),
    read(
      'decisions',
      query
        .selectFrom('traj.decisions')
        .selectAll()
        .where('episode_id', '=', id)
        .orderBy('seq', nullsLast)
        .orderBy('at', nullsLast)
        .orderBy('decision_id'),
    ),
    read(
      'feedback',
      query
        .selectFrom('traj.feedback')
        .selectAll()
        .where('episode_id', '=', id)
        .orderBy('at', nullsLast)
        .orderBy('feedback_id'),
    ),
    read(
      'matrices',
      query
        .selectFrom('traj.executions')
        .selectAll()
        .where('episode_id', '=', id)
        .orderBy('feedback_id')
        .orderBy('program')
        .orderBy('test'),
    ),
    read(
      'verdicts',
      query
        .selectFrom('traj.verdicts')
        .selectAll()
        .where('episode_id', '=', id)
        .orderBy('method')
        .orderBy('step_id', nullsFirst)
        .orderBy('method_key'),
    ),
    read(
      'scores',
      query.selectFrom('traj.scores').selectAll().where('key', '=', `e/${id}`).orderBy('method').orderBy('method_key'),
    ),
    read(
      'rewards',
      query
        .selectFrom('traj.rewards')
        .selectAll()
        .where('episode_id', '=', id)
        .orderBy('method')
        .orderBy('step_id', nullsFirst)
        .orderBy('method_key'),
    ),
    read(
      'credits',
      query
        .selectFrom('traj.credits')
        .selectAll()
        .where('episode_id', '=', id)
        .orderBy('method')
        .orderBy('step_id')
        .orderBy('method_key'),
    ),
    read(
      'blames',
      query.selectFrom('traj.blames').selectAll().where('episode_id', '=', id).orderBy('method').orderBy('method_key'),
    ),
  ]);
  return {
    episode,
    task: task[0] ?? null,
    agents,
    conversation: conversation({ messages, steps, toolCalls, decisions }),
    steps,
    tool_calls: toolCalls,
    feedback,
    matrices: matricesOf(cells),
    verdicts,
    scores,
    rewards,
    credits,
    blames,
    truncated,
  };
}

const nullsLast = (order: OrderByItemBuilder) => order.asc().nullsLast();
const nullsFirst = (order: OrderByItemBuilder) => order.asc().nullsFirst();

/** Token ids are most of the bytes, so they come only when asked for; how many there are comes always. */
const stepsOf = (id: string, tokens: boolean) =>
  query
    .selectFrom('traj.steps')
    .select(['step_id', 'call_id', 'candidate', 'agent_id', 'agent', 'role', 'turn', 'seq', 'text', 'content'])
    .select(['finish_reason', 'chosen', 'parent_step_id', 'model', 'response_model', 'policy', 'checkpoint_id'])
    .select(['model_version', 'temperature', 'seed', 'input_tokens', 'output_tokens', 'latency_ms', 'error'])
    .select(['requested_at', 'completed_at', sql<number | null>`cardinality(token_ids)`.as('tokens')])
    .$if(tokens, (steps) => steps.select(['token_ids', 'logprobs', 'loss_mask', 'prompt_token_ids']))
    .where('episode_id', '=', id)
    .orderBy('seq', nullsLast)
    .orderBy('requested_at', nullsLast)
    .orderBy('call_id')
    .orderBy('candidate');
