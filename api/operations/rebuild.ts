/** Every table again from the log. */
import { Type } from 'typebox';
import { nullable } from './fields.ts';
import { defaulted, operation } from './operation.ts';

export const rebuild = operation({
  name: 'rebuild',
  notes:
    'Judgements are recomputed from the requests in the log. Readers see the old tables until the swap. What was pruned stays out of the tables, unless they show it since a rebuild with --archived; then each rebuild reads its archives again, until a prune takes it out.',
  examples: [{}, { archived: true }],
  input: {
    archived: defaulted(
      Type.Boolean({
        description: 'show in the tables what was pruned too: its events are read in their archives, and stay there',
      }),
      false,
    ),
  },
  output: Type.Object({
    events: Type.Integer({ description: 'applied, those of archives included' }),
    archived: Type.Integer({ description: 'applied from archives' }),
    left_out: Type.Integer({ description: 'events in archives that are not in the tables' }),
    not_judged: Type.Array(
      Type.Object({ name: Type.String(), version: Type.Integer(), known: nullable(Type.Integer()) }),
      { description: 'methods in versions that this Troupe does not have; their results are not in the tables' },
    ),
    seconds: Type.Number(),
  }),
  scope: 'admin',
  changes: true,
  long: 'Rebuilding',
  run: async () => (await import('./rebuild/run.ts')).rebuild,
  text: async () => (await import('./rebuild/text.ts')).rebuilt,
});
