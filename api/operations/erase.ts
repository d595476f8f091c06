/** Removing text for good. */
import { Type } from 'typebox';
import { EXIT } from '../../errors.ts';
import { nullable, reason } from './fields.ts';
import { defaulted, operation, written } from './operation.ts';

const id = (description: string) =>
  written(Type.String({ minLength: 1, maxLength: 4096, pattern: '^[^\\u0000]*$', description }), { value: 'id' });

export const erase = operation({
  name: 'erase',
  notes:
    'Ids, kinds, counts and order stay; text, arguments, outputs and token ids go, and the same events are refused when they come again. Datasets and checkpoints that used it are marked (view traj.erasures); the files of the datasets are removed. Over HTTP and in the library nothing asks for confirmation. The command ends with 1 where an archive still holds it.',
  examples: [
    { subject: 'customer-17', dry_run: true },
    { subject: 'customer-17', reason: 'asked for on 2026-11-20' },
    { episode: 'run-1' },
  ],
  input: {
    subject: Type.Optional(id('every event with this person in its field subject')),
    episode: Type.Optional(id('one episode')),
    reason: Type.Optional({
      ...reason,
      pattern: '^[^\\u0000]*$',
      description: 'reason to store with the erasure; must not name a person',
    }),
    keep_datasets: defaulted(
      Type.Boolean({ description: 'mark the datasets that used it, but keep their files' }),
      false,
    ),
    dry_run: defaulted(Type.Boolean({ description: 'say what would be erased, and change nothing' }), false),
  },
  output: Type.Object({
    erasure_id: nullable(Type.String({ description: 'its id in traj.erasures; null of a dry run' })),
    events: Type.Integer(),
    episodes: Type.Array(Type.String()),
    letters: Type.Array(Type.Integer(), { description: 'dead letters that name the episode or the person' }),
    datasets: Type.Array(
      Type.Object({ dataset_id: Type.String(), removed: Type.Boolean({ description: 'its files are gone' }) }),
      { description: 'that used it' },
    ),
    checkpoints: Type.Array(Type.String(), { description: 'trained on it' }),
    bodies: Type.Integer({ description: 'artifacts that were removed' }),
    archived_events: Type.Integer({ description: 'of it in archives' }),
    archives: Type.Array(
      Type.Object({
        uri: Type.String(),
        rewritten: Type.Boolean({ description: 'false: it is still there' }),
        why: nullable(Type.String({ description: 'why it is still there, and what to do' })),
      }),
      { description: 'that hold it' },
    ),
    warnings: Type.Array(Type.String(), { description: 'a sentence on each thing to look at' }),
  }),
  scope: 'admin',
  changes: true,
  confirm: async () => (await import('./erase/text.ts')).question,
  run: async () => (await import('./erase/run.ts')).erase,
  text: async () => (await import('./erase/text.ts')).erased,
  exit: ({ erasure_id, archives }) =>
    erasure_id !== null && archives.some(({ rewritten }) => !rewritten) ? EXIT.failed : EXIT.done,
});
