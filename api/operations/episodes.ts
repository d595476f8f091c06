/** Episodes: a list that can be filtered, and one of them whole. */
import { Type } from 'typebox';
import { named, nullable } from './fields.ts';
import { filter, listInput, listOf } from './lists.ts';
import { defaulted, operation, written } from './operation.ts';

const only = (what: string) => Type.Optional(Type.String({ description: `only episodes ${what}` }));
const Count = nullable(Type.Integer());
const Text = nullable(Type.String());

export const list = operation({
  name: 'episodes.list',
  about: 'list episodes, newest first',
  examples: [{ limit: 5 }, { task_id: 'maths-17' }, { filter: 'reward >= 0.5 and count(tool_calls where error) = 0' }],
  input: {
    ...listInput(['-started_at', 'episode_id', 'task_id'], 20),
    task_id: written(only('of this task'), { flag: 'task', value: 'id' }),
    group_id: written(only('of this group'), { flag: 'group', value: 'id' }),
    team_id: written(only('of this team'), { flag: 'team', value: 'id' }),
    session_id: written(only('of this session'), { flag: 'session', value: 'id' }),
    outcome: only('with this outcome: success, failure, error, timeout, aborted, unknown'),
    closed: Type.Optional(Type.Boolean({ description: 'only episodes that ended' })),
    filter,
    tag: Type.Optional(
      written(Type.Record(Type.String(), Type.String(), { description: 'only episodes whose tag has this value' }), {
        value: 'name=value',
        repeated: true,
        parse: (text) => {
          const [, name, value] = /^([^=]+)=(.*)$/s.exec(text) ?? [];
          if (name === undefined) throw new Error('should be a name and a value, such as phase=rl');
          return { [name]: value };
        },
      }),
    ),
  },
  output: Type.Object({
    ...listOf(
      Type.Object({
        episode_id: Type.String(),
        task_id: Text,
        query: nullable(Type.String({ description: 'first 300 characters of the task' })),
        attempt: Count,
        group_id: Text,
        team_id: Text,
        outcome: Text,
        reward: nullable(Type.Number()),
        closed: nullable(Type.Boolean()),
        ...{ agents: Count, calls: Count, steps: Count, tool_calls: Count, feedback: Count },
        ...{ input_tokens: nullable(Type.Number()), output_tokens: nullable(Type.Number()) },
        ...{ started_at: Text, finished_at: Text, last_at: Text, stop_reason: Text },
        tags: Type.Unknown(),
        flags: Type.Unknown({ description: 'what to know before it is trusted' }),
      }),
    ).properties,
    waiting_events: Type.Integer({ description: 'in the log and not in the tables yet' }),
  }),
  scope: 'read',
  changes: false,
  run: async () => (await import('./episodes/run.ts')).list,
  text: async () => (await import('./episodes/text.ts')).listed,
});

const Any = Type.Object({}, { additionalProperties: true });
const Anything = Type.Array(Type.Unknown());

export const show = operation({
  name: 'episodes.show',
  about: 'show one episode as a conversation with its tool calls, feedback and credits',
  examples: [{ episode: 'run-1' }, { episode: 'run-1', tokens: true }],
  input: {
    episode: named('id of the episode'),
    tokens: defaulted(Type.Boolean({ description: 'steps with their token ids and log-probabilities' }), false),
    after: Type.Optional(Type.String({ maxLength: 4096, description: 'the `next` of the page before' })),
  },
  output: Type.Object({
    episode: Any,
    task: nullable(Any),
    agents: Anything,
    conversation: Type.Array(Type.Unknown(), {
      description:
        'calls, messages, tool calls and decisions in order; a call has what is new in its prompt, and its candidates',
    }),
    steps: Type.Array(Type.Unknown(), { description: 'of the calls of this page' }),
    tool_calls: Anything,
    feedback: Type.Array(Type.Unknown(), { description: 'on the first page, like all other data of the episode' }),
    matrices: Type.Array(Type.Unknown(), { description: 'execution matrices: programs, tests, pass' }),
    ...{ verdicts: Anything, scores: Anything, rewards: Anything, credits: Anything, blames: Anything },
    truncated: Type.Array(Type.String(), { description: 'lists that were cut at 10,000 rows or 2 MiB' }),
    next: nullable(
      Type.String({ description: 'the `after` of the next page; a page ends after 2 MiB of conversation' }),
    ),
  }),
  scope: 'read',
  changes: false,
  large: true,
  pages: true,
  cuts: true,
  run: async () => (await import('./episodes/show.ts')).show,
  text: async () => (await import('./episodes/conversation.ts')).shown,
});
