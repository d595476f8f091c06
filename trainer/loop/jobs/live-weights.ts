/** Live weights of a policy: those between two checkpoints, which are served and replaced, and which of them are still needed. */
import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Db } from '../../../store/db/pool.ts';
import { query, rowsOf, type SqlBool, sql } from '../../../store/db/query.ts';
import { isCheckpointId } from '../../model/checkpoints/checkpoint.ts';

/**
 * Live weights that are kept on disk: those served now, and those before, for readers that are still at it. A checkpoint that is kept
 * takes their place; it leaves the one that its training began with, for the job may have to be done again.
 */
const LIVE_KEPT = 3;

/** Keeps the newest live weights of a folder, those of a process before this one included, and whatever is still referred to. */
export async function pruneLive(db: Db, folder: string, { keep }: { readonly keep: boolean }): Promise<void> {
  const names = await readdir(folder).catch(() => []);
  const aged = await Promise.all(
    names
      .filter(isCheckpointId)
      .map(async (id) => ({ id, dir: join(folder, id), at: (await stat(join(folder, id))).mtimeMs })),
  );
  const old = aged.sort((a, b) => b.at - a.at).slice(keep ? 1 : LIVE_KEPT);
  const needed = await referredTo(
    db,
    old.map(({ id }) => id),
  );
  for (const { id, dir } of old)
    if (!needed.has(id)) for (const one of [dir, `${dir}-adapter`]) await rm(one, { recursive: true, force: true });
}

/**
 * Of these checkpoints those that a release names, a job that has not ended, whatever its kind, or a run of a plan that has not come to its
 * end: it goes on with what the last training of each of its policies came to.
 */
async function referredTo(db: Db, ids: readonly string[]): Promise<ReadonlySet<string>> {
  if (ids.length === 0) return new Set();
  const trainings = query
    .selectFrom('troupe.job_queue as part')
    .innerJoin('troupe.job_queue as run', (on) =>
      on.on('run.kind', '=', 'plan').on(sql<SqlBool>`starts_with(part.job_id, run.job_id || '/')`),
    )
    .select(sql<string>`part.result ->> 'checkpoint_id'`.as('checkpoint_id'))
    .select(
      sql<number>`row_number() over (partition by run.job_id, part.spec ->> 'policy' order by part.requested_at desc)`.as(
        'place',
      ),
    )
    .where(sql<SqlBool>`(run.state <> 'finished' or run.outcome <> 'done' or run.result ->> 'ended_early' is not null)`)
    .where(sql<SqlBool>`part.result ->> 'checkpoint_id' is not null`)
    .where(sql<SqlBool>`part.spec ->> 'policy' is not null`);
  const rows = await rowsOf(
    db,
    query
      .selectFrom(sql<{ id: string }>`unnest(${ids}::text[])`.as<'asked'>(sql`asked(id)`))
      .select('asked.id')
      .where((one) =>
        one.or([
          sql<SqlBool>`exists (select from troupe.job_queue j where j.state <> 'finished' and strpos(j.spec::text, asked.id) > 0)`,
          sql<SqlBool>`exists (select from traj.releases r where r.checkpoint_id = asked.id)`,
          one('asked.id', 'in', query.selectFrom(trainings.as('t')).select('t.checkpoint_id').where('t.place', '=', 1)),
        ]),
      ),
  );
  return new Set(rows.map(({ id }) => id));
}
