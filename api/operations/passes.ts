/** Forward passes over what was recorded. */
import { Type } from 'typebox';
import { EXIT } from '../../errors.ts';
import { filter } from './lists.ts';
import { described, local, operation } from './operation.ts';

const Count = Type.Integer();

export const embed = operation({
  name: 'passes.embed',
  about: 'compute an embedding of each task and append it to the log, where the judge compares tasks by it',
  examples: [{ model: './all-MiniLM-L6-v2-onnx' }],
  input: {
    model: local(
      Type.String({ description: 'directory with model.onnx and tokenizer.json, as sentence-transformers exports' }),
      'only',
      { value: 'dir' },
    ),
    filter: described(filter, 'only tasks of episodes that match this filter: as in a recipe'),
    threads: Type.Optional(Type.Integer({ minimum: 1, maximum: 1024, description: 'threads (TROUPE_THREADS, 1)' })),
  },
  output: Type.Object({
    model_id: Type.String(),
    ...{ tasks: Count, recorded: Count, known: Count },
    cut: Type.Integer({ description: 'texts that were longer than the model reads' }),
    refused: Type.Object({
      tasks: Count,
      reasons: Type.Record(Type.String(), Count),
      examples: Type.Array(Type.Object({ task_id: Type.String(), reason: Type.String() })),
    }),
    warnings: Type.Array(Type.String()),
  }),
  scope: 'train',
  changes: true,
  long: 'Vectors',
  exit: ({ refused }) => (refused.tasks > 0 ? EXIT.refused : EXIT.done),
  run: async () => (await import('./passes/run.ts')).embed,
  text: async () => (await import('./passes/text.ts')).embedded,
});
