/** A filter of recipes, as it is read. */
import { Type } from 'typebox';
import { operation, position } from './operation.ts';

export const filter = operation({
  name: 'filter',
  examples: [{ filter: 'role = coder and reward >= 0.5' }, { filter: 'count(tool_calls where error) = 0' }],
  input: { filter: position(Type.String({ description: 'as in a recipe: a text, or a JSON tree' })) },
  output: Type.Object({ filter: Type.Unknown(), text: Type.String(), sql: Type.String() }),
  scope: 'read',
  changes: false,
  alone: true,
  body: true,
  run: async () => (await import('./filter/run.ts')).filter,
  text: async () => (await import('./filter/run.ts')).filterShown,
});
