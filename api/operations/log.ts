/** The logs that the events of a project lie in. */
import { Type } from 'typebox';
import { nullable } from './fields.ts';
import { listInput, listOf } from './lists.ts';
import { defaulted, operation } from './operation.ts';

const Text = nullable(Type.String());
const does = () => import('./log/run.ts');
const prints = () => import('./log/text.ts');

export const list = operation({
  name: 'log.list',
  about: 'list the logs that hold events of the project',
  notes:
    'read: how many offsets of the topic were read; "–" for the log in the database. #1 after a name: it took the place of the first.',
  examples: [{}],
  input: { ...listInput(['first_read', 'log']) },
  output: listOf(
    Type.Object({
      log: Type.String(),
      cluster: Text,
      partitions: nullable(Type.Integer()),
      first_read: Text,
      replaced_at: Text,
      read: nullable(Type.Number()),
    }),
  ),
  scope: 'read',
  changes: false,
  run: async () => (await does()).list,
  text: async () => (await prints()).listed,
});

export const adopt = operation({
  name: 'log.adopt',
  about: 'adopt a topic that replaced the one read so far as a new log, from its beginning',
  notes:
    'For error log_replaced where the old topic is gone for good, and for log_truncated. What was read stays in the tables. What the old topic held and nobody had read is lost: send it again. A topic that is missing is made with kafka_partitions partitions. Ingest takes events again within seconds; a projector that ended is started again by you, or by `troupe up`.',
  examples: [{ dry_run: true }, {}],
  input: { dry_run: defaulted(Type.Boolean({ description: 'say what would be adopted' }), false) },
  output: Type.Object({
    adopted: Type.Boolean(),
    log: Type.String({ description: 'the log that is read, or would be replaced' }),
    replaced: nullable(Type.String({ description: 'the log that it took the place of' })),
    why: nullable(Type.String({ description: 'why the topic is another; null where it is the one that was read' })),
    cluster: Text,
    partitions: Type.Integer({ description: 'of the topic now; 0 where there is none' }),
    offsets: Type.Integer({ description: 'that it holds now' }),
  }),
  scope: 'admin',
  changes: true,
  run: async () => (await does()).adopted,
  text: async () => (await prints()).adoptedText,
  confirm: async () => (await prints()).adoptQuestion,
});
