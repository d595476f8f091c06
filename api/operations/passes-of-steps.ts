/** What passes over recorded steps take and give: logprobs and values. */
import { Type } from 'typebox';
import { EXIT } from '../../errors.ts';
import { checkpoint } from './fields.ts';
import { defaulted } from './operation.ts';

const count = Type.Integer();

export const model = checkpoint('the model or checkpoint: its directory, or its id in the home', { value: 'dir' });
export const threads = Type.Optional(
  Type.Integer({ minimum: 1, maximum: 1024, description: 'threads (TROUPE_THREADS, 1)' }),
);
export const episodes = Type.String({
  minLength: 1,
  maxLength: 8192,
  description: 'ids of episodes, separated by commas, or a filter as in a recipe: reward > 0',
});
export const record = defaulted(
  Type.Boolean({ description: 'append the results to the log, where the judge reads them (default: print them)' }),
  false,
);

export const Passed = Type.Object({
  checkpoint_id: Type.String(),
  pass: Type.String(),
  ...{ episodes: count, steps: count, tokens: count },
  recorded: Type.Optional(Type.Integer({ description: 'appended anew' })),
  known: Type.Optional(Type.Integer({ description: 'there already' })),
  refused: Type.Object({
    steps: count,
    reasons: Type.Record(Type.String(), count),
    examples: Type.Array(Type.Object({ episode_id: Type.String(), step_id: Type.String(), reason: Type.String() })),
  }),
  rows: Type.Optional(
    Type.Array(
      Type.Object({
        ...{ episode_id: Type.String(), step_id: Type.String() },
        without: Type.Optional(Type.String({ description: 'the step that was left out of the prompt' })),
        logprobs: Type.Optional(Type.Array(Type.Number())),
        values: Type.Optional(Type.Array(Type.Number())),
      }),
      { description: 'the numbers of each step, unless they are recorded' },
    ),
  ),
  warnings: Type.Array(Type.String()),
});

export const exit = ({ refused }: { readonly refused?: { readonly steps: number } }) =>
  refused !== undefined && refused.steps > 0 ? EXIT.refused : EXIT.done;
