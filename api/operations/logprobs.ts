/** Log-probabilities of rows or of recorded steps. */
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { Type } from 'typebox';
import { defaulted, local, operation } from './operation.ts';
import { episodes, exit, model, Passed, record, threads } from './passes-of-steps.ts';

export const logprobs = operation({
  name: 'logprobs',
  about: 'compute the log-probability of each token of rows or recorded steps',
  examples: [
    { model: './checkpoint', data: 'rows.jsonl' },
    { model: './reference', episodes: 'ep-1,ep-2', as: 'masked', record: true },
  ],
  input: {
    model,
    data: Type.Optional(
      local(
        Type.String({
          minLength: 1,
          description: 'JSON lines {"input_ids":[…]}, or a frozen dataset; every token of a row except the first',
        }),
        'or name',
        { value: 'file', parse: (text) => (existsSync(text) || text.endsWith('.jsonl') ? resolve(text) : text) },
      ),
    ),
    episodes: Type.Optional(episodes),
    as: defaulted(
      Type.Enum(['reference', 'masked', 'alone'], {
        description:
          'reference: given its prompt; masked: the next step, without this one in its prompt; alone: without its prompt',
      }),
      'reference',
    ),
    record,
    threads,
  },
  output: Type.Union([Type.Object({ logprobs: Type.Array(Type.Array(Type.Number())) }), Passed]),
  scope: 'train',
  changes: true,
  alone: ({ episodes }) => episodes === undefined,
  blocks: true,
  long: 'Log-probabilities',
  run: async () => (await import('./logprobs/run.ts')).logprobs,
  text: async () => (await import('./logprobs/text.ts')).shown,
  exit: (output) => exit(output as Parameters<typeof exit>[0]),
});
