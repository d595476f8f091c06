/** A project in one file. */
import { Type } from 'typebox';
import { BUCKET_ACCESS } from './fields.ts';
import { local, operation } from './operation.ts';

const does = () => import('./backup/run.ts');
const paths = (description: string) => Type.Array(Type.String(), { description });

export const backup = operation({
  name: 'backup',
  notes: `All tables of the project as of one moment, and the datasets, checkpoints, artifacts, archives and benchmarks of the home. Nothing has to be stopped. The file holds all that was recorded and the hashes of API keys: keep it where the home may be kept. Not in it: other projects, checkpoints and archives in S3, and events in Kafka that no projector has read. ${BUCKET_ACCESS}`,
  examples: [{ file: 'troupe.tar.gz' }, { file: 's3://backups/troupe/monday.tar.gz' }],
  input: {
    file: Type.Optional(
      local(
        Type.String({
          minLength: 1,
          description: 'file or s3://BUCKET/KEY to write, such as troupe.tar.gz; it must not be there',
        }),
        'result',
        { position: true },
      ),
    ),
  },
  output: Type.Object({
    ...{ file: Type.String(), bytes: Type.Integer(), rows: Type.Integer(), files: Type.Integer() },
    missing: paths('folders that the tables name and that are not in the home'),
    links: paths('symbolic links in the home, which are not copied'),
    warnings: paths('a sentence on each of these two'),
  }),
  scope: 'admin',
  changes: false,
  large: true,
  long: 'Backup',
  run: async () => (await does()).backup,
  text: async () => (await does()).text,
});
