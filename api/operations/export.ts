/** The log, or episodes in another format. */
import { Type } from 'typebox';
import { defaulted, local, operation, written } from './operation.ts';

const exported = operation({
  name: 'export',
  examples: [{ out: 'events.jsonl' }, { format: 'openai-chat', episode: ['run-1'] }],
  input: {
    format: defaulted(
      written(Type.String({ maxLength: 100, description: 'troupe-events (all events), or a two-way format' }), {
        value: 'name',
      }),
      'troupe-events',
    ),
    episode: Type.Optional(
      written(
        Type.Array(Type.String({ maxLength: 4096, pattern: '^[^\\u0000]*$' }), {
          description: 'only these episodes; repeatable',
        }),
        { value: 'id' },
      ),
    ),
    out: Type.Optional(
      local(Type.String({ description: 'file to write; standard output if left out' }), 'result', { value: 'file' }),
    ),
  },
  output: Type.Object({
    lines: Type.Integer(),
    left_out_calls: Type.Integer({ description: 'calls of which it is unknown what the model was shown' }),
  }),
  scope: 'read',
  changes: false,
  large: true,
  run: async () => (await import('./export/run.ts')).exported,
  text: async () => (await import('./export/text.ts')).written,
});

export { exported as export };
