/** The catalogue of methods: what there is, what one takes, and running one on data. */
import { Type } from 'typebox';
import { EXIT } from '../../errors.ts';
import { MAX_RECORD_BYTES } from '../../ingest/events/json.ts';
import { named, nullable } from './fields.ts';
import { listInput, listOf } from './lists.ts';
import { defaulted, local, operation, written } from './operation.ts';

const does = () => import('./method/run.ts');
const prints = () => import('./method/text.ts');

const KINDS = ['filter', 'score', 'reward', 'credit', 'process', 'blame', 'loss'] as const;
const Listed = {
  name: Type.String(),
  kind: Type.Enum(KINDS),
  teams: Type.String({ description: 'the teams that it is for' }),
  over: nullable(
    Type.String({ description: 'what the judge runs it over; null for one that runs on given data only' }),
  ),
  reads: nullable(Type.Array(Type.String(), { description: 'what the judge reads before it runs it' })),
  source: Type.String({ description: 'paper or code, and how far it was checked against it' }),
  version: Type.Integer(),
  summary: Type.String(),
};
const method = named('its name');

export const list = operation({
  name: 'method.list',
  about: 'list every method: its name, kind, the teams it is for, and what it gives',
  examples: [{ kind: 'credit' }, {}],
  input: {
    ...listInput(['kind', 'name'], 500),
    kind: Type.Optional(Type.Enum(KINDS, { description: 'only methods of this kind' })),
  },
  output: listOf(Type.Object(Listed)),
  scope: 'read',
  changes: false,
  alone: true,
  run: async () => (await import('./method/list.ts')).list,
  text: async () => (await prints()).listed,
});

export const show = operation({
  name: 'method.show',
  about: 'show one method: its output, source, parameters, input and an example to paste',
  examples: [{ method: 'grpo_advantage' }],
  input: { method },
  output: Type.Object({
    ...Listed,
    params: Type.Unknown({ description: 'parameters with their defaults' }),
    limits: Type.Optional(Type.Unknown({ description: 'JSON Schema of parameters' })),
    input: Type.Unknown({ description: 'JSON Schema of the input' }),
    example: Type.Optional(
      Type.Object({ input: Type.Unknown(), output: Type.Unknown() }, { description: 'an input, and what it gives' }),
    ),
  }),
  scope: 'read',
  changes: false,
  alone: true,
  run: async () => (await does()).show,
  text: async () => (await prints()).shown,
});

export const run = operation({
  name: 'method.run',
  about: 'run a method on data; parameters go into the same object as the data',
  examples: [{ method: 'grpo_advantage', input: { group: ['q', 'q'], reward: [1, 0] } }],
  input: {
    method,
    input: written(Type.Object({}, { additionalProperties: true, description: 'data and parameters' }), {
      file: 'stdin',
    }),
  },
  output: Type.Object({ output: Type.Unknown() }),
  scope: 'read',
  changes: false,
  alone: true,
  body: true,
  run: async () => (await does()).run,
  text: async () => (await prints()).ran,
});

export const runLines = operation({
  name: 'method.run-lines',
  about: 'run a method for each line {"method":…,"input":…} of a file or of standard input',
  notes: `Each line that is not empty gets one line, in order: {"output":…}, or {"error":{"code","message"}} and the rest goes on.
Exit code 0 when every line was answered with an output, 3 when some were refused. A line may have ${MAX_RECORD_BYTES} bytes.`,
  examples: [{ file: 'asked.ndjson', out: 'answered.ndjson' }, {}],
  input: {
    file: defaulted(
      local(Type.String({ description: 'JSON lines; - is standard input' }), 'only', { position: true }),
      '-',
    ),
    out: Type.Optional(
      local(Type.String({ description: 'file to write; standard output if left out' }), 'result', { value: 'file' }),
    ),
  },
  output: Type.Object({
    lines: Type.Integer(),
    refused: Type.Integer(),
    first_refused: nullable(Type.Integer({ description: 'number of the first line that was refused' })),
  }),
  scope: 'read',
  changes: false,
  alone: true,
  here: true,
  run: async () => (await import('./method/lines.ts')).runLines,
  text: async () => (await prints()).ranLines,
  exit: ({ refused }) => (refused > 0 ? EXIT.refused : EXIT.done),
});
