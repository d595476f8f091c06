/** A home that is not needed any more. */
import { Type } from 'typebox';
import { defaulted, operation } from './operation.ts';

const does = () => import('./reset/run.ts');

export const reset = operation({
  name: 'reset',
  notes: 'It refuses while anything works on the home. What Troupe did not put there stays.',
  examples: [{}, { dry_run: true }],
  input: { dry_run: defaulted(Type.Boolean({ description: 'say what would be deleted, and delete nothing' }), false) },
  output: Type.Object({
    home: Type.String(),
    there: Type.Boolean({ description: 'false: there was no such home' }),
    removed: Type.Boolean(),
  }),
  scope: 'admin',
  changes: true,
  alone: true,
  here: true,
  confirm: async () => (await does()).question,
  run: async () => (await does()).reset,
  text: async () => (await does()).text,
});
