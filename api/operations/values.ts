/** Value estimates of recorded steps. */
import { Type } from 'typebox';
import { defaulted, operation } from './operation.ts';
import { episodes, exit, model, Passed, record, threads } from './passes-of-steps.ts';

export const values = operation({
  name: 'values',
  about: 'compute value estimates for recorded steps with a model that has a value head',
  examples: [{ model: './value-model', episodes: 'ep-1,ep-2', record: true }],
  input: {
    model,
    episodes,
    of: defaulted(
      Type.Enum(['tokens', 'state', 'answer'], {
        description: 'tokens: what stands before each; state: the prompt of a step; answer: with its answer',
      }),
      'tokens',
    ),
    record,
    threads,
  },
  output: Passed,
  scope: 'train',
  changes: true,
  blocks: true,
  long: 'Values',
  run: async () => {
    const [{ overEpisodes }, { valuePass, valuesPass }] = await Promise.all([
      import('./passes-of-steps/run.ts'),
      import('../../trainer/sample/passes.ts'),
    ]);
    return (context, input) => overEpisodes(context, input, input.of === 'tokens' ? valuesPass : valuePass(input.of));
  },
  text: async () => (await import('./passes-of-steps/text.ts')).passed,
  exit,
});
