/** Releases in their order. */
import { Type } from 'typebox';
import { nullable } from './fields.ts';
import { filterInput } from './filtered-list.ts';
import { listInput, listOf } from './lists.ts';
import { operation } from './operation.ts';

const map = Type.Record(Type.String(), Type.String());

export const list = operation({
  name: 'releases.list',
  about: 'list releases, newest first: the checkpoint of each policy, and since when',
  examples: [{ limit: 5 }, { filter: 'by = rollback' }],
  input: { ...listInput(['-released_at', 'release_id']), ...filterInput() },
  output: listOf(
    Type.Object({
      release_id: Type.String(),
      policies: map,
      teams: nullable(map),
      reason: nullable(Type.String()),
      by: nullable(Type.String()),
      metrics: Type.Unknown({ description: 'what was measured of it' }),
      released_at: nullable(Type.String()),
    }),
  ),
  scope: 'read',
  changes: false,
  run: async () => (await import('./release/run.ts')).list,
  text: async () => (await import('./release/text.ts')).listed,
});
