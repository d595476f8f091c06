/** The views that SQL reads. */
import { Type } from 'typebox';
import { named, nullable } from './fields.ts';
import { listInput, listOf } from './lists.ts';
import { operation } from './operation.ts';

const about = nullable(Type.String({ description: 'its comment' }));
const does = () => import('./views/run.ts');

export const list = operation({
  name: 'views.list',
  about: 'list the views that SQL reads, with what each is',
  examples: [{}],
  input: { ...listInput(['name'], 200) },
  output: listOf(Type.Object({ name: Type.String(), about, columns: Type.Integer() })),
  scope: 'read',
  changes: false,
  run: async () => (await does()).list,
  text:
    async () =>
    ({ items }) =>
      items.map(({ name, about }) => `${name}\n  ${about ?? ''}`).join('\n'),
});

export const show = operation({
  name: 'views.show',
  about: 'show the columns of a view, with their types and notes',
  examples: [{ view: 'traj.episodes' }],
  input: { view: named('name of a view, with or without its schema') },
  output: Type.Object({
    name: Type.String(),
    about,
    columns: Type.Array(Type.Object({ name: Type.String(), type: Type.String(), note: nullable(Type.String()) })),
  }),
  scope: 'read',
  changes: false,
  run: async () => (await does()).show,
  text:
    async () =>
    ({ name, about, columns }, { table }) =>
      `${name}: ${about ?? ''}\n${table(
        ['column', 'type', 'note'],
        columns.map((one) => [one.name, one.type, one.note ?? '']),
      )}`,
});
