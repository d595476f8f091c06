/** What the operation lineage does. */
import { got, TroupeError } from '../../../errors.ts';
import { query, rowsOf, sql } from '../../../store/db/query.ts';
import { lineageOf } from '../../../store/explore/lineage.ts';
import type { ReadContext } from '../operation.ts';

export async function lineage({ db }: ReadContext, { id, depth }: { readonly id: string; readonly depth: number }) {
  const relations = await rowsOf(
    db,
    query
      .selectFrom('traj.lineage')
      .select(['checkpoint_id', 'relation', 'dataset_id'])
      .select([
        sql<number>`count(distinct episode_id)::integer`.as('episodes'),
        sql<number>`count(step_id)::integer`.as('steps'),
        sql<string | null>`min(other_checkpoint_id)`.as('other_checkpoint_id'),
      ])
      .where((row) => row.or([row('checkpoint_id', '=', id), row('step_id', '=', id), row('episode_id', '=', id)]))
      .groupBy(['checkpoint_id', 'relation', 'dataset_id'])
      .orderBy('checkpoint_id')
      .orderBy('relation')
      .orderBy('dataset_id'),
  );
  const used = query
    .selectFrom('traj.lineage')
    .select('episode_id')
    .where((row) => row.or([row('checkpoint_id', '=', id), row('step_id', '=', id)]));
  const frozen = query.selectFrom('traj.dataset_rows').select('episode_id').where('dataset_id', '=', id);
  const pruned = await rowsOf(
    db,
    query
      .selectFrom('traj.pruned')
      .select(['archive_id', 'uri', sql<number>`count(*)::integer`.as('episodes')])
      .select([
        sql<string | null>`min(episode_id)`.as('first_episode_id'),
        sql<string | null>`max(pruned_at)::text`.as('pruned_at'),
      ])
      .where((row) =>
        row.or([row('episode_id', '=', id), row('episode_id', 'in', used), row('episode_id', 'in', frozen)]),
      )
      .groupBy(['archive_id', 'uri'])
      .orderBy('archive_id'),
  );
  const found = await db.transaction((tx) => lineageOf(tx, id, depth), {
    isolation: 'repeatable read',
    readOnly: true,
  });
  if (found.length + pruned.length > 0) return { lineage: relations, pruned, found };
  throw new TroupeError('not_found', `There is no episode, step, dataset, row or checkpoint ${got(id)}.`, {
    field: 'id',
    got: got(id),
    hint: 'A row is DATASET/SPLIT/ROW; in a path the / of an id is written %2F. New events take a moment to appear.',
  });
}
