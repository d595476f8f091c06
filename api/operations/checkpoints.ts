/** Checkpoints: weights with their lineage. */
import { Type } from 'typebox';
import { EXIT } from '../../errors.ts';
import { bestOf } from './checkpoints/best.ts';
import { BUCKET_ACCESS, checkpoint, nullable } from './fields.ts';
import { filterInput } from './filtered-list.ts';
import { listInput, listOf } from './lists.ts';
import { defaulted, language, local, operation, written } from './operation.ts';

const text = nullable(Type.String());
const prints = () => import('./checkpoints/text.ts');
const looks = () => import('./checkpoints/folder.ts');
const moves = () => import('./checkpoints/move.ts');

export const list = operation({
  name: 'checkpoints.list',
  about: 'list the checkpoints that the project knows, newest first',
  notes: 'Those of jobs and of the demo, of `train --policy`, and those added.',
  examples: [{ limit: 5 }, { policy: 'solver', all: true }, { filter: 'step > 100' }],
  input: {
    ...listInput(['-saved_at', 'checkpoint_id', 'policy']),
    ...filterInput('policy', 'job_id', 'parent_id'),
    all: defaulted(Type.Boolean({ description: 'include live weights between two checkpoints' }), false),
  },
  output: listOf(
    Type.Object({
      checkpoint_id: Type.String(),
      ...{ policy: text, parent_id: text },
      step: nullable(Type.Integer()),
      kept: nullable(Type.Boolean({ description: 'false of live weights between two checkpoints' })),
      ...{ uri: text, sha256: text },
      dataset_ids: Type.Unknown({ description: 'datasets that it was trained on' }),
      job_id: text,
      metrics: Type.Unknown({ description: 'what was measured of it' }),
      code_version: text,
      adapter_base: nullable(Type.String({ description: 'of an adapter, the checkpoint that it goes over' })),
      saved_at: text,
      erasures: nullable(Type.Array(Type.String(), { description: 'erasures of what it was trained on' })),
    }),
  ),
  scope: 'read',
  changes: false,
  run: async () => (await import('./checkpoints/run.ts')).list,
  text: async () => (await prints()).listed,
});

export const add = operation({
  name: 'checkpoints.add',
  about: 'record a checkpoint that was trained by hand, with its datasets and its parent',
  notes: 'Then release, checkpoints and lineage know it.',
  examples: [{ checkpoint: './checkpoints/ab12cd34ef56ab78', policy: 'coder' }],
  input: {
    checkpoint: checkpoint('its directory or id, or a folder of checkpoints, of which the latest is taken'),
    policy: written(Type.String({ ...{ minLength: 1, maxLength: 512 }, description: 'policy of the checkpoint' }), {
      value: 'name',
    }),
  },
  output: Type.Object({
    ...{ checkpoint_id: Type.String(), directory: Type.String(), policy: text, parent_id: text },
    dataset_ids: Type.Array(Type.String()),
  }),
  scope: 'train',
  changes: true,
  run: async () => (await import('./checkpoints/run.ts')).add,
  text: async () => (await prints()).added,
});

const folder = (description: string) => local(Type.String({ minLength: 1, description }), 'only', { value: 'dir' });
const ofFolder = Type.Optional(
  local(Type.String({ minLength: 1, description: 'folder of checkpoints (default: that of the home)' }), 'only', {
    position: true,
  }),
);
const within = Type.Optional(folder('folder that holds it and its ancestors'));
const metrics = Type.Record(Type.String(), nullable(Type.Number()));
const Facts = {
  checkpoint_id: Type.String(),
  ...{ step: nullable(Type.Integer()), parent: text, metrics: nullable(metrics), bytes: nullable(Type.Integer()) },
  ...{ sound: Type.Boolean(), fault: nullable(Type.String({ description: 'what is wrong with it' })) },
};

const inFolder = operation({
  name: 'checkpoints.folder',
  about: 'list the checkpoints of a folder by step, and verify each',
  examples: [{ dir: './checkpoints' }, { quick: true }],
  input: {
    dir: ofFolder,
    quick: defaulted(Type.Boolean({ description: 'check sizes only, without hashing files' }), false),
  },
  output: Type.Object({
    directory: Type.String(),
    ...{ quick: Type.Boolean(), latest: text },
    checkpoints: Type.Array(
      Type.Object({
        ...{ ...Facts, latest: Type.Boolean() },
        erasures: nullable(Type.Array(Type.String(), { description: 'erasures of what it was trained on' })),
      }),
    ),
  }),
  scope: 'read',
  changes: false,
  alone: true,
  large: true,
  run: async () => (await looks()).folder,
  text: async () => (await prints()).inFolder,
});

export const latest = operation({
  name: 'checkpoints.latest',
  about: 'print the directory that the pointer latest of a folder names',
  examples: [{ dir: './checkpoints' }],
  input: { dir: ofFolder },
  output: Type.Object({ checkpoint_id: Type.String(), directory: Type.String() }),
  scope: 'read',
  changes: false,
  alone: true,
  run: async () => (await looks()).latest,
  text: async () => (await prints()).latest,
});

export const show = operation({
  name: 'checkpoints.show',
  about: 'show the origin of a checkpoint: its datasets, its metrics and its ancestors',
  examples: [{ checkpoint: './checkpoints/ab12cd34ef56ab78' }, { checkpoint: 'ab12cd34ef56ab78', in: './checkpoints' }],
  input: { checkpoint: checkpoint('its directory, or its id'), in: within },
  output: Type.Object(
    {
      ...{ checkpoint_id: Type.String(), sha256: Type.String(), directory: Type.String(), bytes: Type.Integer() },
      ...{ step: Type.Integer(), parent: text, metrics, datasets: Type.Array(Type.String()) },
      ancestors: Type.Array(
        Type.Object({
          ...{ checkpoint_id: Type.String(), found: Type.Boolean(), step: nullable(Type.Integer()) },
          ...{ datasets: Type.Array(Type.String()), metrics },
        }),
        { description: 'parents, nearest first, as far as they lie in the folder' },
      ),
      files: Type.Record(Type.String(), Type.Object({ bytes: Type.Integer(), sha256: Type.String() })),
    },
    { additionalProperties: true },
  ),
  scope: 'read',
  changes: false,
  alone: true,
  run: async () => (await looks()).show,
  text: async () => (await prints()).shown,
});

export const verify = operation({
  name: 'checkpoints.verify',
  about: 'verify every file of a checkpoint, or of all in a folder, against its stored hash',
  notes: 'The command ends with 1 where one is damaged.',
  examples: [{ checkpoint: './checkpoints/ab12cd34ef56ab78' }, { checkpoint: './checkpoints' }],
  input: { checkpoint: checkpoint('its directory, its id, or a folder of checkpoints'), in: within },
  output: Type.Object({
    ...{ directory: Type.String(), sound: Type.Boolean() },
    checkpoints: Type.Array(Type.Object(Facts)),
  }),
  scope: 'read',
  changes: false,
  alone: true,
  large: true,
  run: async () => (await looks()).verify,
  text: async () => (await prints()).verified,
  exit: ({ sound }) => (sound ? EXIT.done : EXIT.failed),
});

const count = (description: string) => Type.Integer({ minimum: 1, maximum: 1_000_000_000, description });

export const prune = operation({
  name: 'checkpoints.prune',
  about:
    'remove the checkpoints of a folder that no rule keeps; latest and released ones, and those in use, are always kept',
  notes:
    'A checkpoint that cannot be read is kept. Where there is a project, what it ever released and what its unfinished jobs name is kept. An adapter goes with its checkpoint, and the base of an adapter that is kept is kept. What is known of a checkpoint stays: its lineage, its metrics, its releases.',
  examples: [
    { dir: './checkpoints', keep_last: 3, dry_run: true },
    { dir: './checkpoints', keep_last: 1, keep_every: 1000, keep_best: 'held_out_loss:min' },
  ],
  input: {
    dir: ofFolder,
    keep_last: count('keep the N checkpoints with the highest steps, and the last N of each policy of the project'),
    keep_every: Type.Optional(count('keep checkpoints whose step is a multiple of N')),
    keep_best: Type.Optional(
      language(
        Type.String({
          maxLength: 512,
          description:
            'keep the best by a metric: METRIC, METRIC:min or METRIC:max (default: min where its name ends in "loss", else max)',
        }),
        bestOf,
      ),
    ),
    dry_run: defaulted(Type.Boolean({ description: 'say what would be removed, and remove nothing' }), false),
  },
  output: Type.Object({
    directory: Type.String(),
    dry_run: Type.Boolean(),
    project: Type.Boolean({ description: 'false: no project was there that could say what was released' }),
    kept: Type.Array(Type.Object({ id: Type.String(), why: Type.Array(Type.String()) })),
    removed: Type.Array(Type.Object({ id: Type.String(), step: nullable(Type.Integer()), bytes: Type.Integer() })),
    swept: Type.Array(Type.String(), { description: 'what processes that died left, and was removed' }),
    bytes: Type.Integer({ description: 'of what is removed' }),
    warnings: Type.Array(Type.String()),
  }),
  scope: 'admin',
  changes: true,
  alone: true,
  run: async () => (await moves()).prune,
  text: async () => (await prints()).pruned,
});

const store = (description: string) => local(Type.String({ minLength: 1, description }), 'only', { position: true });
const pointer = (description: string) => defaulted(Type.Boolean({ description }), false);
const COPIED = `Every file is compared with its hash on the way, and a transfer that ended in the middle goes on where it ended. ${BUCKET_ACCESS}`;

export const push = operation({
  name: 'checkpoints.push',
  about: 'copy a checkpoint to a bucket or another folder',
  notes: `${COPIED} The folder of an adapter beside it (ID-adapter, for PEFT and servers) stays where it is, and is named.`,
  examples: [
    { checkpoint: './checkpoints/ab12cd34ef56ab78', store: 's3://bucket/team/coder', latest: true },
    { checkpoint: 'ab12cd34ef56ab78', store: '/mnt/backup', in: './checkpoints' },
  ],
  input: {
    checkpoint: checkpoint('its directory, or its id'),
    store: store('s3://bucket/prefix, or a folder'),
    in: within,
    latest: pointer('update the pointer latest there'),
  },
  output: Type.Object({
    ...{ checkpoint_id: Type.String(), store: Type.String(), latest: Type.Boolean() },
    sent: Type.Array(Type.String(), { description: 'files that were sent' }),
    kept: Type.Array(Type.String(), { description: 'files that were there' }),
    bytes: Type.Integer({ description: 'of the files that were sent' }),
    adapter: nullable(Type.String({ description: 'the folder of its adapter, which is not copied' })),
    warnings: Type.Array(Type.String()),
  }),
  scope: 'train',
  changes: true,
  alone: true,
  run: async () => (await moves()).push,
  text: async () => (await prints()).pushed,
});

export const pull = operation({
  name: 'checkpoints.pull',
  about: 'copy a checkpoint from a bucket or another folder; the latest one if no id is given',
  notes: COPIED,
  examples: [
    { store: 's3://bucket/team/coder', dir: './checkpoints', latest: true },
    { store: 's3://bucket/team/coder/ab12cd34ef56ab78', dir: './checkpoints' },
  ],
  input: {
    store: store('s3://bucket/prefix or s3://bucket/prefix/ID, or a folder'),
    dir: store('folder of checkpoints that it is to lie in'),
    latest: pointer('update the pointer latest of the folder'),
  },
  output: Type.Object({
    ...{ checkpoint_id: Type.String(), store: Type.String(), directory: Type.String() },
    ...{ bytes: Type.Integer(), latest: Type.Boolean() },
  }),
  scope: 'train',
  changes: true,
  alone: true,
  run: async () => (await moves()).pull,
  text: async () => (await prints()).pulled,
});

export { inFolder as folder };
