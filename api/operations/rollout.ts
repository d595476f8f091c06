/** Rollouts: tasks go to a team that the configuration names, and complete groups of episodes come back. */
import { readFileSync } from 'node:fs';
import { type TSchema, Type } from 'typebox';
import { EXIT, TroupeError } from '../../errors.ts';
import { parseRecord } from '../../ingest/events/json.ts';
import { faultList } from '../../store/loop/play/faults.ts';
import { ReplayRequest } from '../../store/loop/play/replay.ts';
import { AskedRollout, TeamAsked } from '../../store/loop/play/rollout.ts';
import { named, nullable, pairs } from './fields.ts';
import { defaulted, described, local, operation, written } from './operation.ts';
import { readTasksFile, readTeamFile } from './played-files.ts';

const does = () => import('./rollout/run.ts');
const prints = () => import('./rollout/text.ts');

/** Attempts that a request leases or ends. */
const MOST_ATTEMPTS = 1000;

/** What is before and behind the first `=`. */
function halves(text: string): readonly [string, string] {
  const [, name, value] = /^([^=]+)=(.+)$/s.exec(text) ?? [];
  if (name !== undefined && value !== undefined) return [name, value];
  throw new Error('should be NAME=VALUE');
}

/** Values by name, each written `name=value`. */
const byName = <S extends TSchema>(flag: string, value: string, schema: S, read: (text: string) => unknown = String) =>
  written(schema, {
    ...{ flag, value, repeated: true },
    parse: (text) => {
      const [name, written] = halves(text);
      return { [name]: read(written) };
    },
  });

/** Text, `step:ID`, or what a file holds: text, or a message as JSON. */
function answerIn(text: string): unknown {
  if (text.startsWith('step:')) return { step_id: text.slice('step:'.length) };
  if (!text.startsWith('@')) return text;
  const held = readFileSync(text.slice(1), 'utf8');
  if (!held.trimStart().startsWith('{')) return held;
  const parsed = parseRecord(held);
  if ('value' in parsed) return parsed.value;
  throw new TroupeError('usage', `${text.slice(1)} begins like JSON, but is none.`, { field: 'answer' });
}

function teamIn(text: string): unknown {
  const [, name, file] = /^([^=]+)(?:=(.+))?$/.exec(text) ?? [];
  if (name === undefined) throw new Error('should be NAME or NAME=FILE');
  return file === undefined ? { name } : { name, definition: readTeamFile(file) };
}

const { runner, tasks, samples, tags, params, policies, seed, deadline_s, budget, max_staleness, tasks_where } =
  AskedRollout.properties;
const { episode_id, from, where, answer, answers, fault, skip, kind, hypothesis } = ReplayRequest.properties;

const replay = Type.Object(
  {
    episode_id: written(episode_id, { flag: 'replay', value: 'episode' }),
    from: written(from, { flag: 'from', value: 'place' }),
    where: written(where, { flag: 'replay-where', value: 'filter' }),
    answer: written(
      described(
        answer,
        'give this answer at the place: a text, step:ID for the output of a candidate of the source, or @FILE: a text, or a JSON object with content and tool_calls',
      ),
      { flag: 'answer', value: 'text', parse: answerIn },
    ),
    answers: byName(
      'answer-of',
      'agent=text',
      described(answers, 'give this answer to the next call of an agent, from the place on; repeatable'),
      answerIn,
    ),
    kind: written(kind, { flag: 'as', value: 'kind' }),
    hypothesis: written(hypothesis, { flag: 'hypothesis', value: 'text' }),
    fault: written(fault, { flag: 'fault', value: 'name' }),
    skip: written(skip, { flag: 'skip' }),
  },
  { additionalProperties: false },
);

const asked = {
  runner: written(runner, { value: 'name' }),
  tasks: Type.Optional(
    written(
      described(
        tasks,
        'what is to be solved: of a file one JSON object a line with task_id, prompt or input, answer, and what the team needs',
      ),
      {
        value: 'file',
        parse: readTasksFile,
        text: () => 'tasks.jsonl',
      },
    ),
  ),
  tasks_where: written(tasks_where, { value: 'filter' }),
  replay: Type.Optional(replay),
  samples,
  id: Type.Optional(
    written(
      Type.String({
        description:
          'name of the rollout and prefix of its episode ids; asking again for the same changes nothing (default: generated)',
      }),
      { value: 'name' },
    ),
  ),
  seed: defaulted(seed, 0),
  deadline_s: written(deadline_s, { flag: 'deadline', value: 'seconds' }),
  budget: pairs(
    described(budget, 'tokens, seconds or usd: once it is used up, no further episode is started; repeatable'),
  ),
  max_staleness,
  team: Type.Optional(
    written(
      described(
        TeamAsked,
        'version of the team to play in: the released one, or that of a YAML or JSON file; the team reads it in TROUPE_TEAM',
      ),
      {
        value: 'name[=file]',
        parse: teamIn,
      },
    ),
  ),
  tags: byName('tag', 'name=value', tags),
  policies: byName('policy', 'name=checkpoint', policies),
};
const detach = defaulted(
  Type.Boolean({ description: 'do not wait for its end, as over HTTP, where `rollout show` has its result' }),
  false,
);
const count = Type.Optional(Type.Integer());
const ids = Type.Array(Type.String());
const Result = {
  rollout_id: Type.String(),
  state: Type.Enum(['running', 'finished']),
  groups: Type.Optional(Type.Object({ complete: Type.Integer(), partial: Type.Integer() })),
  partial: Type.Optional(Type.Array(Type.Object({ task_id: Type.String(), done: Type.Integer(), of: Type.Integer() }))),
  episodes: Type.Optional(ids),
  attempts: Type.Optional(Type.Record(Type.String(), Type.Integer())),
  ...{ tokens: Type.Optional(nullable(Type.Number())), usd: Type.Optional(nullable(Type.Number())) },
  ...{ without_reward: count, equal_rewards: count, seconds: Type.Optional(Type.Number()) },
};

const sum = { task_id: 'sum', prompt: 'What is 3 plus 4?' };

export const start = operation({
  name: 'rollout.start',
  about: 'have a team play tasks, several episodes each, and record complete groups',
  notes: `The runner plays each task --samples times: a command, a webhook, or workers that lease attempts, as defined under runners in troupe.yaml. The samples of a task are one group. An attempt that fails is retried as often as the runner allows; a group with a missing sample is partial, and its episodes are not in the result.

\`troupe run work\` or \`troupe up\` plays the episodes. Ctrl-C ends this command, not the rollout; rerun the command with the same --id to go on waiting for it.

--replay plays a recorded episode again: the gateway answers its calls from the record up to the call that --from names, and what comes after is played anew. At that place another sample is drawn, or --answer, --fault or --skip change it. A team that calls differently before the place is refused; the sample then fails as \`diverged\`, with the reason. Faults: ${faultList()}.`,
  examples: [
    { runner: 'solver', tasks: [sum], samples: 8 },
    {
      runner: 'solver',
      tasks_where: 'task.split = train and mean_reward < 1',
      samples: 8,
      budget: { tokens: 200_000 },
    },
    { runner: 'solver', replay: { episode_id: 'first/sum-1/0', from: 'end' }, samples: 1 },
    {
      runner: 'solver',
      replay: { episode_id: 'first/sum-1/0', from: '3f0c1f/0', answer: 'The sum is 12.' },
      samples: 3,
    },
    { runner: 'solver', replay: { where: 'tags.rollout = first and role = verifier' }, samples: 2, id: 'second' },
  ],
  input: { ...asked, params: byName('param', 'name=value', params, settingIn), detach },
  output: Type.Object(Result),
  scope: 'rollout',
  changes: true,
  long: 'Rollout',
  requests: true,
  run: async () => (await does()).start,
  text: async () => (await prints()).started,
  exit: (ended) => (!('groups' in ended) || ended.groups.complete > 0 ? EXIT.done : EXIT.failed),
});

function settingIn(text: string): string | number {
  return Number.isNaN(Number(text)) ? text : Number(text);
}

export const show = operation({
  name: 'rollout.show',
  about: 'show the state of a rollout, and its result once it has ended',
  examples: [{ id: 'night-1' }],
  input: { id: named('its name') },
  output: Type.Object({
    ...{ rollout_id: Type.String(), state: Type.Enum(['waiting', 'running', 'finished']) },
    outcome: nullable(Type.String()),
    attempts: Type.Object({
      ...{ waiting: Type.Integer(), running: Type.Integer(), done: Type.Integer(), failed: Type.Integer() },
    }),
    ...{ result: Type.Unknown(), error: Type.Unknown() },
  }),
  scope: 'rollout',
  changes: false,
  run: async () => (await does()).show,
  text: async () => (await prints()).shown,
});

export const sweep = operation({
  name: 'rollout.sweep',
  about: 'play the same tasks with the same seeds once for each combination of settings, and compare them',
  notes:
    'Each combination is a rollout, whose team reads its settings in TROUPE_PARAMS. Over HTTP all are requested; asked again with the same id once they have ended, it answers with the comparison.',
  examples: [
    {
      runner: 'solver',
      tasks_where: 'task.split = train',
      samples: 4,
      id: 'sweep',
      vary: { agents: [1, 2, 4], max_tokens: [256, 1024] },
    },
  ],
  input: {
    ...asked,
    vary: written(
      Type.Record(
        Type.String({ pattern: '^[A-Za-z_][\\w.-]*$' }),
        Type.Array(Type.Union([Type.Number(), Type.String()]), { minItems: 1, uniqueItems: true }),
        { minProperties: 1, description: 'the values of a setting; repeatable: all combinations' },
      ),
      {
        ...{ value: 'name=a,b,c', repeated: true },
        parse: (text) => {
          const [name, values] = halves(text);
          return { [name]: values.split(',').map((value) => settingIn(value.trim())) };
        },
      },
    ),
    plot: Type.Optional(
      local(Type.String({ description: 'SVG of reward against tokens of each combination' }), 'only', {
        value: 'file',
      }),
    ),
    detach,
  },
  output: Type.Object({
    sweep: Type.String(),
    rollouts: ids,
    points: nullable(
      Type.Array(
        Type.Object({
          ...{ rollout_id: Type.String(), params: Type.Record(Type.String(), Type.Unknown()) },
          ...{ episodes: Type.Integer(), tasks: Type.Integer() },
          left_out: Type.Integer({ description: 'tasks of which a sample is missing under one of the combinations' }),
          ...{ without_reward: Type.Integer(), reward: nullable(Type.Number()) },
          interval: nullable(Type.Object({ low: Type.Number(), high: Type.Number() })),
          tokens: nullable(Type.Number({ description: 'of an episode' })),
        }),
        { description: 'null before all have ended' },
      ),
    ),
  }),
  scope: 'rollout',
  changes: true,
  long: 'Rollout',
  requests: true,
  run: async () => (await does()).sweep,
  text: async () => (await prints()).swept,
  exit: ({ points }) => (points === null || points.every(({ episodes }) => episodes > 0) ? EXIT.done : EXIT.failed),
});

const held = {
  attempt_id: Type.String({ minLength: 1, maxLength: 512, pattern: '^[^\\u0000]*$' }),
  token: Type.Integer({ minimum: 0, description: 'of the lease' }),
};

export const lease = operation({
  name: 'rollout.lease',
  about: 'lease the next attempts of a runner for a worker',
  examples: [{ runner: 'desk' }, { runner: 'desk', count: 8, wait_s: 30 }],
  input: {
    runner: Type.String({ maxLength: 512, description: 'a runner with workers: true' }),
    count: defaulted(Type.Integer({ minimum: 1, maximum: MOST_ATTEMPTS, description: 'attempts, at most' }), 1),
    wait_s: defaulted(
      Type.Number({
        minimum: 0,
        maximum: 60,
        description: 'seconds to wait for the first attempt where none waits',
      }),
      0,
    ),
  },
  output: Type.Object({
    attempts: Type.Array(
      Type.Object({ ...held, lease_s: Type.Number({ description: 'seconds to the next sign of life' }) }),
      { description: 'with what each is to play; none if none waits' },
    ),
  }),
  scope: 'rollout',
  changes: true,
  run: async () => (await does()).lease,
  text: async () => (await prints()).leased,
});

export const heartbeat = operation({
  name: 'rollout.heartbeat',
  about: 'give a sign of life of the worker that holds an attempt',
  examples: [{ attempt_id: 'night-1/sums/0', token: 1 }],
  input: held,
  output: Type.Object({
    lease_s: Type.Number({ description: 'seconds for which it is held' }),
    seconds_left: Type.Number({ description: 'until its deadline' }),
  }),
  scope: 'rollout',
  changes: true,
  run: async () => (await does()).heartbeat,
  text: async () => (await prints()).held,
});

export const finish = operation({
  name: 'rollout.finish',
  about: 'end attempts; late and duplicate reports are stored and acknowledged',
  examples: [{ attempts: [{ attempt_id: 'night-1/sums/0', token: 1, outcome: 'done', reward: 1 }] }],
  input: {
    attempts: written(
      Type.Array(
        Type.Object(
          {
            ...held,
            outcome: Type.Enum(['done', 'failed'], {
              description: 'failed: an infrastructure error; it has no reward and is retried',
            }),
            reward: Type.Optional(nullable(Type.Number())),
            answer: Type.Optional(nullable(Type.String())),
            episode_outcome: Type.Optional(Type.Enum(['success', 'failure', 'unknown'])),
            reason: Type.Optional(nullable(Type.String({ maxLength: 4000 }))),
          },
          { additionalProperties: false },
        ),
        { minItems: 1, maxItems: MOST_ATTEMPTS, description: 'how each ended' },
      ),
      { file: 'document', value: 'file' },
    ),
  },
  output: Type.Object({
    attempts: Type.Array(
      Type.Object({
        attempt_id: Type.String(),
        state: Type.Enum(['accepted', 'late', 'duplicate'], { description: 'whether the report counted' }),
        outcome: Type.Enum(['done', 'failed']),
        why: nullable(Type.String()),
      }),
    ),
  }),
  scope: 'rollout',
  changes: true,
  run: async () => (await does()).finish,
  text: async () => (await prints()).finished,
});
