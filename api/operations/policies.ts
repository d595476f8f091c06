/** Policies: what each serves. */
import { Type } from 'typebox';
import { nullable } from './fields.ts';
import { listInput, listOf } from './lists.ts';
import { operation } from './operation.ts';

export const list = operation({
  name: 'policies.list',
  about: 'list policies with the checkpoint each serves and its newest one',
  examples: [{}],
  input: listInput(['policy']),
  output: Type.Object({
    ...listOf(
      Type.Object({
        policy: Type.String(),
        released: nullable(Type.String({ description: 'checkpoint, or upstream:MODEL' })),
        newest: nullable(Type.String({ description: 'checkpoint that was saved last' })),
      }),
    ).properties,
    release_id: nullable(Type.String({ description: 'the release in force' })),
    teams: Type.Record(Type.String(), Type.String(), { description: 'the version of each team that is released' }),
    watch: nullable(Type.Object({}, { additionalProperties: true, description: 'the watch of the release' })),
    rolled_back: nullable(Type.String({ description: 'why the release before was rolled back' })),
  }),
  scope: 'read',
  changes: false,
  run: async () => (await import('./policies/run.ts')).list,
  text: async () => (await import('./policies/text.ts')).listed,
});
