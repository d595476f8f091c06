/** Whether log and tables agree. */
import { Type } from 'typebox';
import { EXIT } from '../../errors.ts';
import { nullable } from './fields.ts';
import { operation } from './operation.ts';

const Count = Type.Integer();
const Counts = <N extends string>(...names: readonly N[]) =>
  Object.fromEntries(names.map((name) => [name, Count])) as Record<N, typeof Count>;

export const reconcile = operation({
  name: 'reconcile',
  notes:
    'received = acknowledged + rejected; what is in the log is in the tables or counted. The command ends with 1 where that is not so. Feedback on steps that do not exist is counted and does not make it end with 1; `select * from traj.feedback where no_such_step` lists it.',
  examples: [{}],
  input: {},
  output: Type.Object({
    ok: Type.Boolean(),
    endpoints: Type.Array(
      Type.Object({
        endpoint: Type.String(),
        ...Counts('received', 'acknowledged', 'duplicates', 'rejected'),
        balanced: Type.Boolean(),
      }),
    ),
    log: Type.Object(Counts('events', 'positions', 'pruned', 'gaps'), {
      description: 'pruned: positions whose events lie in archives',
    }),
    tables: Type.Object(Counts('applied', 'dead', 'lag')),
    topics: Type.Array(
      Type.Object({
        log: Type.String(),
        ...Counts('partition', 'began', 'position', 'accepted', 'duplicates', 'dead', 'gaps'),
        ...{ begin: nullable(Count), end: nullable(Count), lag: nullable(Count) },
        balanced: Type.Boolean(),
      }),
      { description: 'partitions of a log outside the database; begin, end and lag are null where it was not asked' },
    ),
    ...Counts('dead_letters', 'laid_aside'),
    orphans: Type.Record(Type.String(), Count, { description: 'rows that no event stands behind, by table' }),
    feedback_without_step: Count,
    split_identities: Type.Array(
      Type.Object({ source: Type.String(), id: Type.String(), keys: Type.Array(Type.String()) }),
      { description: 'the same source and id under several keys' },
    ),
  }),
  scope: 'read',
  changes: false,
  large: true,
  run: async () => (await import('./reconcile/run.ts')).reconcile,
  text: async () => (await import('./reconcile/text.ts')).reconciled,
  exit: ({ ok }) => (ok ? EXIT.done : EXIT.failed),
});
