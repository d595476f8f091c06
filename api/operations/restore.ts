/** A project again from its backup. */
import { Type } from 'typebox';
import { BUCKET_ACCESS } from './fields.ts';
import { local, operation } from './operation.ts';

const does = () => import('./restore/run.ts');

export const restore = operation({
  name: 'restore',
  notes: `Into a home or project that holds nothing; the project has the name that it had, if --project gives no other. A backup of an older Troupe is brought up to date. The whole file is checked before anything of it can be seen. A copy of a project that still runs elsewhere runs its schedules too: pause them there or here. ${BUCKET_ACCESS}`,
  examples: [{ file: 'troupe.tar.gz' }, { file: 's3://backups/troupe/monday.tar.gz' }],
  input: {
    file: local(
      Type.String({ minLength: 1, description: 'a file or s3://BUCKET/KEY that troupe backup wrote' }),
      'only',
      { position: true },
    ),
  },
  output: Type.Object({
    ...{ project: Type.String(), home: Type.String(), made_at: Type.String() },
    ...{ rows: Type.Integer(), files: Type.Integer() },
    warnings: Type.Array(Type.String()),
  }),
  scope: 'admin',
  changes: true,
  alone: true,
  long: 'Restore',
  run: async () => (await does()).restore,
  text: async () => (await does()).text,
});
