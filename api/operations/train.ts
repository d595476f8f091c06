/** Training by hand: from a model and rows to a checkpoint in a folder. A plan requests the same as a job. */
import { Type } from 'typebox';
import { EXIT } from '../../errors.ts';
import { nullable } from './fields.ts';
import { operation } from './operation.ts';
import { dpoInput, rewardInput, rlInput, sftInput, valueInput } from './train/input.ts';

const does = () => import('./train/run.ts');
const prints = async () => (await import('./train/text.ts')).trained;

const numbers = Type.Array(Type.Number());
const Output = Type.Object({
  checkpoint_id: Type.String(),
  directory: Type.String(),
  losses: Type.Array(Type.Number(), { description: 'training loss of each step' }),
  grad_norms: numbers,
  tokens_per_second: nullable(Type.Number()),
  trained_tokens_per_second: nullable(Type.Number()),
  learning_rates: numbers,
  metrics: Type.Record(Type.String(), Type.Array(nullable(Type.Number()))),
  held_out: Type.Array(
    Type.Object({ step: Type.Integer(), loss: Type.Number(), metrics: Type.Record(Type.String(), Type.Number()) }),
    { description: 'the loss of held-out rows at each evaluation' },
  ),
  best: nullable(
    Type.Object(
      { step: Type.Integer(), loss: Type.Number(), directory: nullable(Type.String()) },
      {
        description: 'the best evaluation; its directory where its checkpoint is kept',
      },
    ),
  ),
  stopped_early: Type.Boolean({ description: 'the held-out loss got no better' }),
  resumed_after_step: Type.Integer(),
  rows: Type.Object({
    used: Type.Integer(),
    cut: Type.Integer({ description: 'at the longest length' }),
    skipped: Type.Integer({ description: 'with nothing to learn within it' }),
    refused: Type.Integer(),
    errors: Type.Array(
      Type.Object({
        ...{ file: Type.String(), line: Type.Integer(), field: Type.String() },
        ...{ expected: Type.String(), got: Type.String() },
      }),
    ),
  }),
  report: nullable(Type.String()),
  answer_form: nullable(Type.String({ description: 'how the template of the model writes answers' })),
  policy: Type.Optional(Type.String()),
  stored_at: Type.Optional(Type.String({ description: 'the store that the checkpoints were brought to' })),
  adapter: Type.Optional(Type.String({ description: 'directory of the adapter, as PEFT reads it' })),
  roles: Type.Optional(Type.Record(Type.String(), Type.Record(Type.String(), Type.Number()))),
});

/** Of every way of training. Nothing is recorded, and no project opened, unless a policy is named. */
const training = {
  scope: 'train',
  long: 'Training',
  blocks: true,
  output: Output,
  text: prints,
  alone: ({ policy }: { readonly policy?: string }) => policy === undefined,
  exit: ({ rows }: { readonly rows: { readonly refused: number } }) => (rows.refused > 0 ? EXIT.refused : EXIT.done),
} as const;

const RESUME =
  'Rerun the command to resume an interrupted run where it ended. With one thread its losses are exactly those of an uninterrupted run.';

export const sft = operation({
  ...training,
  changes: true,
  name: 'train.sft',
  about: 'supervised fine-tuning',
  notes: `Rows of a file are JSON, one a line:
  {"messages":[{"role":"user","content":"…"},{"role":"assistant","content":"…"}]}   messages of the assistant are learnt
  {"prompt":"…","completion":"…"}                                                   the completion is learnt
  {"request":{"messages":[…]},"response":{"choices":[…]}}                           the first choice is learnt
  {"input_ids":[1,2,3],"loss_mask":[0,1,1]}                                         1: learnt; no mask: all but the first
"tools" beside messages are shown to the model as its chat template writes them; calls of tools are learnt like text.
A row longer than the model's context or --max-length is cut at its end; one with nothing to learn before the cut is left
out. Both are counted. A step has rows of one role of a dataset; the steps of its roles are interleaved. --eval 0.1 holds out a tenth of the tasks of a dataset, of the rows of a file.

${RESUME}`,
  examples: [
    { model: './model', data: 'chats.jsonl', out: './checkpoints', epochs: 3, learning_rate: 2e-4, eval: '0.1' },
    { model: './model', data: 'good-solvers', out: './checkpoints', steps: 200, lora: { r: 8, alpha: 16 } },
    { model: './model', data: 'team', out: './checkpoints', steps: { router: 60, checker: 200 } },
  ],
  input: sftInput,
  run: async () => (await does()).sft,
});

export const dpo = operation({
  ...training,
  changes: true,
  name: 'train.dpo',
  about: 'direct preference optimisation',
  notes: `Rows of a file are JSON, one a line, with text or messages:
  {"prompt":"…","chosen":"…","rejected":"…"}
Of a dataset of steps the best and the worst answer to one prompt are a pair, by advantage or reward.

${RESUME}`,
  examples: [
    { model: './model', data: 'pairs.jsonl', out: './checkpoints', epochs: 1, learning_rate: 5e-6, beta: 0.2 },
  ],
  input: dpoInput,
  run: async () => (await does()).dpo,
});

export const rl = operation({
  ...training,
  changes: true,
  name: 'train.rl',
  about: 'policy gradient over the advantages of a dataset',
  notes: `The dataset needs a credit and the log-probabilities of its tokens.

${RESUME}`,
  examples: [
    { model: './checkpoints/ab12', data: 'cd34', out: './checkpoints', groups: 8, learning_rate: 5e-4, loss: 'grpo' },
  ],
  input: rlInput,
  run: async () => (await does()).rl,
});

export const value = operation({
  ...training,
  changes: true,
  name: 'train.value',
  about: 'a value head that learns what steps earned',
  notes: `Rows of a file are those of train sft with the reward beside them:
  {"prompt":"…","completion":"…","reward":0.5}
Of a dataset of steps the column reward is read; a row without one is omitted and counted. Before each token that is learnt
the head outputs one number, whose target is the reward of the row. A language model gets a new head, which begins at 0; its
checkpoint is what troupe values takes as --model. All weights are trained.

${RESUME}`,
  examples: [
    { model: './model', data: 'answers.jsonl', out: './critics', epochs: 2, learning_rate: 2e-4, eval: '0.1' },
    { model: './model', data: 'solver-steps', out: './critics', steps: 200, loss: 'huber', policy: 'critic' },
  ],
  input: valueInput,
  run: async () => (await does()).value,
});

export const reward = operation({
  ...training,
  changes: true,
  name: 'train.reward',
  about: 'a reward head that learns from preferences',
  notes: `Rows are those of train dpo: of a file one pair of answers a line, of a dataset of steps the best and the worst answer to one
prompt. The head outputs one number at the last token of an answer, higher for the chosen one (Bradley-Terry). A language
model gets a new head, drawn from --seed. All weights are trained.

${RESUME}`,
  examples: [
    {
      ...{ model: './model', data: 'pairs.jsonl', out: './rewards', epochs: 1 },
      ...{ learning_rate: 1e-5, eval: '0.1', policy: 'judge' },
    },
  ],
  input: rewardInput,
  run: async () => (await does()).reward,
});
