/** Failure attribution: list it, evaluate it against labels, and ask a judge model for it. */
import { Type } from 'typebox';
import { EXIT } from '../../errors.ts';
import { nullable } from './fields.ts';
import { listInput, listOf } from './lists.ts';
import { defaulted, local, operation, written } from './operation.ts';

const does = () => import('./blame/run.ts');
const prints = () => import('./blame/text.ts');

const Id = Type.String({ maxLength: 512, pattern: '^[^\\u0000]*$' });
const only = (what: string, by: string) =>
  Type.Optional(Type.String({ ...Id, description: `only attributions ${what} this ${by}` }));
const Text = nullable(Type.String());
const Count = Type.Integer();
const limit = (description: string, minimum = 1) => Type.Optional(Type.Integer({ minimum, description }));

export const list = operation({
  name: 'blame.list',
  about: 'list the attributions of methods and annotators, by episode',
  notes: 'Without a method the labels of people and models are listed too.',
  examples: [{}, { method: 'failure_signs' }, { episode: 'run-1' }],
  input: { ...listInput(['episode_id'], 500), method: only('by', 'method'), episode: only('of', 'episode') },
  output: listOf(
    Type.Object({
      blame_id: Type.String(),
      episode_id: Text,
      says: nullable(Type.String({ description: 'the method or annotator' })),
      rank: nullable(Count),
      ...{ agent_id: Text, entry: nullable(Count), step_id: Text },
      value: nullable(Type.Number()),
      reason: Text,
    }),
  ),
  scope: 'read',
  changes: false,
  run: async () => (await does()).list,
  text: async () => (await prints()).listed,
});

export const evaluate = operation({
  name: 'blame.evaluate',
  about: 'measure how often attributions name the right agent and entry, against the labels of annotators',
  examples: [{ group: 'coordination' }, { cross_validate: 10 }],
  input: {
    method: only('by', 'method'),
    annotator: only('by', 'annotator'),
    gold: Type.Optional(
      Type.String({
        ...Id,
        description: 'annotator whose labels are the ground truth (default: every label not given by a model)',
      }),
    ),
    group: defaulted(
      Type.Enum(['origin', 'difficulty', 'coordination'], {
        description: 'grouping of the results, shown beside the total',
      }),
      'origin',
    ),
    match: defaulted(
      Type.Enum(['exact', 'contains'], {
        description: 'contains: the true value is part of the predicted one, as in the published script',
      }),
      'exact',
    ),
    cross_validate: Type.Optional(
      written(
        Type.Integer({
          minimum: 2,
          maximum: 1000,
          description: 'refit failure_signs on each of so many folds and score it on held-out episodes',
        }),
        { value: 'folds' },
      ),
    ),
  },
  output: Type.Object({
    match: Type.String(),
    ...{ cases: Count, unlabelled: Count, ambiguous: Count, agent_mismatch: Count },
    groups: Type.Array(Type.Object({ group: Type.String(), cases: Count, scores: Type.Array(Type.Unknown()) }), {
      description: 'the first is all of them; others only where there is more than one',
    }),
    coefficients: Type.Unknown({ description: 'fitted to all cases, by method' }),
  }),
  scope: 'read',
  changes: false,
  large: true,
  run: async () => (await does()).evaluate,
  text: async () => (await prints()).scoresText,
});

export const modes = operation({
  name: 'blame.modes',
  about: 'show the failure modes (MAST) that annotators found, and how far they agree',
  examples: [{}],
  input: {},
  output: Type.Object({ annotators: Type.Array(Type.Unknown()), agreement: Type.Array(Type.Unknown()) }),
  scope: 'read',
  changes: false,
  run: async () => (await does()).modes,
  text: async () => (await prints()).modesText,
});

export const annotate = operation({
  name: 'blame.annotate',
  about: 'ask a judge model about each failed episode once, and record its answers',
  notes: 'Answers are recorded and never requested twice: ask again to go on where it stopped.',
  examples: [
    { model: 'policy:judge', max_calls: 200 },
    { model: 'gpt-x', endpoint: 'https://models.example/v1', key_env: 'JUDGE_KEY', method: 'mast' },
  ],
  input: {
    model: Type.String({ minLength: 1, maxLength: 512, description: 'name of the model at the endpoint' }),
    endpoint: Type.Optional(
      local(Type.String({ description: 'OpenAI-compatible base URL (default: the gateway of this project)' }), 'only', {
        value: 'url',
      }),
    ),
    key_env: Type.Optional(
      local(Type.String({ description: 'environment variable that holds the API key of the endpoint' }), 'only', {
        value: 'name',
      }),
    ),
    method: defaulted(
      Type.Enum(['who-and-when', 'who-and-when-step-by-step', 'who-and-when-binary-search', 'mast'], {
        description: 'prompt to use',
      }),
      'who-and-when',
    ),
    episodes: Type.Optional(
      written(Type.Array(Id, { description: 'only these episodes; all failed ones if left out' }), {
        flag: 'episode',
        value: 'id',
      }),
    ),
    with_reference: defaulted(Type.Boolean({ description: 'show the ground truth to the model' }), false),
    max_calls: limit('stop after this many requests'),
    max_tokens: limit('stop after this many tokens'),
    conversation_tokens: limit('truncate longer conversations', 100),
    concurrency: Type.Optional(Type.Integer({ minimum: 1, maximum: 64, description: 'episodes in flight at once' })),
  },
  output: Type.Object({
    episodes: Type.Integer({ description: 'that were to be annotated' }),
    ...{ cached: Count, annotated: Count },
    refused: Type.Integer({ description: 'of those annotated, without an answer that can be used' }),
    failed: Type.Integer({ description: 'episodes on which the endpoint failed; the next run asks about them again' }),
    stopped: nullable(Type.String({ description: 'why it ended before the last episode' })),
    usage: Type.Object({ calls: Count, input_tokens: Type.Number(), output_tokens: Type.Number() }),
  }),
  scope: 'train',
  changes: true,
  long: 'Annotating',
  exit: ({ failed, stopped }) =>
    stopped === 'interrupted'
      ? EXIT.interrupted
      : failed > 0 || stopped?.startsWith('endpoint_')
        ? EXIT.unreachable
        : EXIT.done,
  run: async () => (await does()).annotated,
  text: async () => (await prints()).annotatedText,
});
