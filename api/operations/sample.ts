/** Text of a model. */
import { Type } from 'typebox';
import { defaulted, operation, written } from './operation.ts';
import { model, threads } from './passes-of-steps.ts';

const share = (description: string) => Type.Number({ minimum: 0, maximum: 1, description });

export const sample = operation({
  name: 'sample',
  about: 'generate text with a model or checkpoint',
  examples: [
    { model: './checkpoint', prompt_ids: [5, 6, 7], max_tokens: 8, temperature: 0 },
    { model: './checkpoint', prompt: 'a b', n: 4, stop: ['\n'] },
  ],
  input: {
    model,
    prompt_ids: Type.Optional(
      written(
        Type.Array(Type.Integer({ minimum: 0 }), { minItems: 1, description: 'token ids, separated by commas' }),
        {
          ...{ value: 'ids', text: (ids: readonly number[]) => ids.join(',') },
          parse: (text) => text.split(',').map((id) => (/^\s*\d+\s*$/.test(id) ? Number(id) : id)),
        },
      ),
    ),
    prompt: Type.Optional(written(Type.String({ description: 'text instead of ids' }), { value: 'text' })),
    max_tokens: defaulted(
      Type.Integer({ minimum: 0, maximum: 1_000_000, description: 'maximum number of new tokens' }),
      64,
    ),
    temperature: defaulted(Type.Number({ minimum: 0, description: '0 is greedy' }), 1),
    top_k: defaulted(Type.Integer({ minimum: 0, description: 'sample from the N most likely tokens; 0: all' }), 0),
    top_p: defaulted(share('sample from the most likely tokens that hold this share of the probability'), 1),
    min_p: defaulted(share('sample from tokens at least this share as likely as the most likely one'), 0),
    stop: Type.Optional(
      written(Type.Array(Type.String({ minLength: 1 }), { description: 'stop at any of these texts' }), {
        value: 'text...',
      }),
    ),
    threads,
    seed: defaulted(Type.Integer({ minimum: 0, description: 'seed' }), 0),
    n: defaulted(Type.Integer({ minimum: 1, maximum: 10_000, description: 'samples' }), 1),
  },
  output: Type.Object({
    samples: Type.Array(
      Type.Object({
        token_ids: Type.Array(Type.Integer()),
        logprobs: Type.Array(Type.Number(), { description: 'of each token' }),
        text: Type.String({ description: 'up to where it was stopped' }),
      }),
    ),
  }),
  scope: 'train',
  changes: false,
  alone: true,
  blocks: true,
  long: 'Samples',
  run: async () => (await import('./sample/run.ts')).sample,
  text:
    async () =>
    ({ samples }) =>
      samples.map(({ text }) => text).join('\n'),
});
