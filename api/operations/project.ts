/** Projects: each has its own database. */
import { Type } from 'typebox';
import { listInput, listOf } from './lists.ts';
import { operation, position } from './operation.ts';

const does = () => import('./project/run.ts');
const prints = () => import('./project/text.ts');

export const create = operation({
  name: 'project.create',
  about: 'create a project; one that exists is left as it is',
  examples: [{ name: 'airline' }],
  input: {
    name: position(
      Type.String({
        pattern: '^[A-Za-z][A-Za-z0-9_-]{0,47}$',
        description: 'a letter, then up to 47 letters, digits, "_" or "-"',
      }),
    ),
  },
  output: Type.Object({ project: Type.String(), created: Type.Boolean({ description: 'false: it existed' }) }),
  scope: 'admin',
  changes: true,
  alone: true,
  run: async () => (await does()).create,
  text: async () => (await prints()).created,
});

export const list = operation({
  name: 'project.list',
  about: 'list projects',
  examples: [{}],
  input: listInput(['project']),
  output: listOf(Type.Object({ project: Type.String() })),
  scope: 'admin',
  changes: false,
  alone: true,
  run: async () => (await does()).list,
  text: async () => (await prints()).listed,
});
