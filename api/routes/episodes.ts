/** Episodes: a list that can be filtered, and one of them with everything that is known about it. */
import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import { got, TroupeError } from '../../errors.ts';
import type { Db } from '../../store/db/pool.ts';
import { conversation, type Row } from '../conversation.ts';
import { matricesOf } from '../executions.ts';
import { documented } from '../openapi.ts';
import { PAGE, readId, readQuery } from '../query.ts';
import { type Condition, equals, type Listing, readPage } from '../rows.ts';
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

const LISTING: Listing = {
  from: 'traj.episodes',
  columns: [
    'episode_id',
    'task_id',
    '(select left(t.query, 300) from traj.tasks t where t.task_id = traj.episodes.task_id) as task',
    'attempt',
    'group_id',
    'team_id',
    'outcome',
    'reward',
    'closed',
    'agents',
    'calls',
    'steps',
    'tool_calls',
    'feedback',
    'input_tokens',
    'output_tokens',
    'started_at',
    'finished_at',
    'last_at',
    'stop_reason',
    'tags',
    'flags',
  ],
  time: 'coalesce(started_at, last_at)',
  id: 'episode_id',
};

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
      const conditions: Condition[] = [
        ...FILTERS.flatMap((name) => (values[name] === undefined ? [] : [equals(name, values[name])])),
        ...(closed === undefined ? [] : [{ sql: (p: string) => `coalesce(closed, false) = ${p}`, value: closed }]),
        ...Object.entries(tags).map(
          ([key, value]): Condition => ({
            sql: (p) => `tags ->> (${p}::text[])[1] = (${p}::text[])[2]`,
            value: [key, value],
          }),
        ),
      ];
      return readPage(db, LISTING, { limit, after }, conditions);
    },
  );

  app.get<{ Params: { readonly id: string } }>(
    '/v1/episodes/:id',
    documented({
      summary: 'One episode as a conversation, with what was judged of it.',
      tag: 'reads',
      scope: 'read',
      query: One,
      answers: { 200: { about: 'the episode', schema: Episode } },
    }),
    async (request) => readEpisode(db, readId(request.params.id), readQuery(request.query, One).values.tokens ?? false),
  );
}

async function readEpisode(db: Db, id: string, tokens: boolean): Promise<Record<string, unknown>> {
  const [episode] = (await db.query<Row>('select * from traj.episodes where episode_id = $1', [id])).rows;
  if (!episode) {
    const detail = {
      field: 'id',
      got: got(id),
      hint: 'GET /v1/episodes lists them; new events take a moment to appear.',
    };
    throw new TroupeError('not_found', `There is no episode ${got(id)}.`, detail);
  }
  const truncated: string[] = [];
  const read = async (name: string, sql: string): Promise<readonly Row[]> => {
    const { rows } = await db.query<Row>(`${sql} limit ${MOST + 1}`, [id]);
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
      : db.query<Row>('select * from traj.tasks where task_id = $1', [episode.task_id]).then(({ rows }) => rows),
    read('agents', 'select * from traj.agents where episode_id = $1 order by agent_id'),
    read(
      'messages',
      'select * from traj.messages where episode_id = $1 order by at nulls last, seq nulls last, call_id, place, message_id',
    ),
    read(
      'steps',
      `select ${stepColumns(tokens)} from traj.steps where episode_id = $1 order by seq nulls last, requested_at nulls last, call_id, candidate`,
    ),
    read(
      'tool_calls',
      'select * from traj.tool_calls where episode_id = $1 order by seq nulls last, called_at nulls last, tool_call_id',
    ),
    read(
      'decisions',
      'select * from traj.decisions where episode_id = $1 order by seq nulls last, at nulls last, decision_id',
    ),
    read('feedback', 'select * from traj.feedback where episode_id = $1 order by at nulls last, feedback_id'),
    read('matrices', 'select * from traj.executions where episode_id = $1 order by feedback_id, program, test'),
    read(
      'verdicts',
      'select * from traj.verdicts where episode_id = $1 order by method, step_id nulls first, method_key',
    ),
    read('scores', `select * from traj.scores where key = 'e/' || $1::text order by method, method_key`),
    read(
      'rewards',
      'select * from traj.rewards where episode_id = $1 order by method, step_id nulls first, method_key',
    ),
    read('credits', 'select * from traj.credits where episode_id = $1 order by method, step_id, method_key'),
    read('blames', 'select * from traj.blames where episode_id = $1 order by method, method_key'),
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

const STEP = [
  'step_id',
  'call_id',
  'candidate',
  'agent_id',
  'agent',
  'role',
  'turn',
  'seq',
  'text',
  'content',
  'finish_reason',
  'chosen',
  'parent_step_id',
];
const CALL = [
  'model',
  'response_model',
  'policy',
  'checkpoint_id',
  'model_version',
  'temperature',
  'seed',
  'input_tokens',
  'output_tokens',
  'latency_ms',
  'error',
  'requested_at',
  'completed_at',
];
const TOKENS = ['token_ids', 'logprobs', 'loss_mask', 'prompt_token_ids'];

/** Token ids are most of the bytes, so they come only when asked for; how many there are comes always. */
const stepColumns = (tokens: boolean): string =>
  [...STEP, ...CALL, 'cardinality(token_ids) as tokens', ...(tokens ? TOKENS : [])].join(', ');
