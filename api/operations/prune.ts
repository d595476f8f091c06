/** Old episodes go into files, and come back. */
import { Type } from 'typebox';
import { momentOf } from './durations.ts';
import { BUCKET_ACCESS } from './fields.ts';
import { filter } from './lists.ts';
import { defaulted, described, language, local, operation, written } from './operation.ts';

const does = () => import('./prune/run.ts');
const prints = () => import('./prune/text.ts');
const count = Type.Integer();
const Archive = { archive_id: Type.String(), uri: Type.String(), episodes: count, events: count };

export const start = operation({
  name: 'prune.start',
  about: 'move old episodes from the database into Parquet archives',
  notes: `Whole groups go, once all their episodes are closed and nothing happened to them since; what an unfinished job reads stays. Each archive is written, read back and compared before anything is removed; stopped at any moment, a second run goes on. Events about what was pruned are refused until it is restored. Datasets, checkpoints and their lineage stay. The view traj.pruned names the places. \`troupe rebuild --archived\` shows it in the tables while it stays in its archives; pruned again, it leaves the tables alone. Over HTTP and in the library nothing asks for confirmation. ${BUCKET_ACCESS}`,
  examples: [
    { older_than: '90d', dry_run: true },
    { older_than: '2026-01-01', filter: 'tags.phase = trial', to: '/mnt/archive' },
    { older_than: '1y', to: 's3://archive/troupe' },
  ],
  input: {
    older_than: written(
      language(
        Type.String({
          maxLength: 100,
          description: 'only groups without events since then: 90d, 12h, 4w, 1y ago, or a date',
        }),
        (text) => momentOf(text, new Date()),
      ),
      { value: 'time' },
    ),
    filter: described(filter, 'only groups whose episodes all match this filter, as in a recipe'),
    to: Type.Optional(
      local(
        Type.String({
          minLength: 1,
          description: 'folder or s3://BUCKET/PREFIX to write archives into (default: archives in the home)',
        }),
        'only',
        { value: 'place' },
      ),
    ),
    limit: Type.Optional(Type.Integer({ minimum: 0, description: 'maximum number of episodes; whole groups only' })),
    dry_run: defaulted(Type.Boolean({ description: 'say what would be pruned, and change nothing' }), false),
  },
  output: Type.Object({
    ...{ before: Type.String(), dry_run: Type.Boolean(), groups: count, episodes: count },
    archived: Type.Integer({ description: 'episodes that lie in archives already: only their rows go' }),
    events: count,
    bytes: Type.Integer({ description: 'of their data, as JSON' }),
    archives: Type.Array(Type.Object({ ...Archive, bytes: count, files: Type.Array(Type.String()) })),
    artifacts: Type.Integer({ description: 'artifacts that nothing names any more, and that were removed' }),
    changed: Type.Integer({ description: 'groups about which something came meanwhile; they stay' }),
    warnings: Type.Array(Type.String()),
  }),
  scope: 'admin',
  changes: true,
  long: 'Pruning',
  confirm: async () => (await prints()).question,
  run: async () => (await does()).start,
  text: async () => (await prints()).pruned,
});

export const restore = operation({
  name: 'prune.restore',
  about: 'put back what lies in archives',
  notes: `What was refused meanwhile can be replayed: troupe deadletters replay --code pruned. ${BUCKET_ACCESS}`,
  examples: [{ place: '/mnt/archive/2026-11-21-ab12cd34ef56' }, { place: 's3://archive/troupe' }, {}],
  input: {
    place: Type.Optional(
      local(
        Type.String({
          ...{ minLength: 1, maxLength: 4096 },
          description:
            'an archive, a file of it, or what holds several: its name in the home, a folder or s3://BUCKET/PREFIX (default: all in the home)',
        }),
        'or name',
        { position: true },
      ),
    ),
  },
  output: Type.Object({
    archives: Type.Array(
      Type.Object({
        ...Archive,
        left_out: Type.Integer({ description: 'keys that are back already, or were erased' }),
      }),
    ),
    ...{ episodes: count, events: count, artifacts: count },
  }),
  scope: 'admin',
  changes: true,
  long: 'Restoring',
  run: async () => (await does()).restore,
  text: async () => (await prints()).restored,
});
