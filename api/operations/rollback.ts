/** An earlier release again. */
import { Type } from 'typebox';
import { named, reason } from './fields.ts';
import { operation } from './operation.ts';

export const rollback = operation({
  name: 'rollback',
  notes:
    'A new release restores the whole map of that release, so a policy that a later release changed gets its earlier checkpoint. Rolling back again restores the release before that. `troupe releases` lists them.',
  examples: [{ reason: 'answers got longer' }, { release: 'nightly-3/1' }],
  input: {
    release: Type.Optional(named('release to go back to; the one before what is released now if left out')),
    reason: Type.Optional(reason),
  },
  output: Type.Object({
    release_id: Type.String(),
    back_to: Type.String(),
    policies: Type.Record(Type.String(), Type.String()),
    teams: Type.Record(Type.String(), Type.String()),
    warnings: Type.Array(Type.String(), { description: 'a sentence on each policy that had no release then' }),
  }),
  scope: 'train',
  changes: true,
  run: async () => (await import('./release/run.ts')).rollback,
  text: async () => (await import('./release/text.ts')).rolledBack,
});
