/** Recipes: which rows become a dataset. */
import { Type } from 'typebox';
import { operation } from './operation.ts';

export const schema = operation({
  name: 'recipe.schema',
  about: 'print the JSON Schema of a recipe',
  examples: [{}],
  input: {},
  output: Type.Object({}, { additionalProperties: true }),
  scope: 'read',
  changes: false,
  alone: true,
  run: async () => (await import('./schemas.ts')).recipe,
  text: async () => (await import('./schemas.ts')).printed,
});
