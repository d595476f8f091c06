/** What operations on checkpoints do. */
import { query, sql } from '../../../store/db/query.ts';
import { erasuresOf } from '../../../store/keep/marks.ts';
import { checkpointAt } from '../checkpoint-places.ts';
import { columns, type FilteredPage, filteredList } from '../filtered-list.ts';
import type { ChangeContext, OutputOf, ReadContext } from '../operation.ts';

const CHECKPOINTS = {
  rows: 'traj.checkpoints',
  fields: {
    ...columns('text', 'checkpoint_id', 'parent_id', 'policy', 'job_id', 'code_version'),
    ...columns('integer', 'step'),
    ...columns('boolean', 'kept'),
    ...columns('time', 'saved_at'),
  },
  id: 'checkpoint_id',
};

const checkpoints = query
  .selectFrom('traj.checkpoints')
  .select([sql<string>`checkpoint_id`.as('checkpoint_id'), 'policy', 'parent_id', 'step', 'kept', 'uri', 'sha256'])
  .select(['dataset_ids', 'job_id', 'metrics', 'code_version', 'saved_at'])
  .select(sql<string | null>`config -> 'adapter' ->> 'base'`.as('adapter_base'));

export async function list({ db }: ReadContext, { all, ...asked }: FilteredPage & { readonly all: boolean }) {
  const page = await filteredList<OutputOf<typeof checkpoints.executeTakeFirstOrThrow>>(
    db,
    all ? checkpoints : checkpoints.where('kept', '=', true),
    CHECKPOINTS,
    asked,
  );
  const ids = page.items.map(({ checkpoint_id: id }) => id);
  const marks = await erasuresOf(db, 'checkpoint', ids);
  return { ...page, items: page.items.map((one) => ({ ...one, erasures: marks.get(one.checkpoint_id) ?? null })) };
}

/** Records one that lies in a folder. */
export async function add(context: ChangeContext, asked: { readonly checkpoint: string; readonly policy: string }) {
  const { recordCheckpoint } = await import('./record.ts');
  return recordCheckpoint(context, checkpointAt(context.home, asked.checkpoint), asked.policy);
}
