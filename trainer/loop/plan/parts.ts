/** Parts of a job that is made of jobs: what one came to, and waiting for it without a worker. */
import { TroupeError } from '../../../errors.ts';
import type { Db } from '../../../store/db/pool.ts';
import { firstOf, query } from '../../../store/db/query.ts';
import { WaitsFor } from '../../../store/queue/jobs/jobs.ts';

/** One part: what it was asked and what came of it. */
export type PartResult<T> = { readonly spec: Readonly<Record<string, unknown>>; readonly result: T };

/**
 * What a part came to; null where nobody has asked for it.
 * @throws WaitsFor until it has ended; TroupeError `training_failed` where it ended otherwise than done
 */
export async function partOf<T>(db: Pick<Db, 'query'>, job_id: string): Promise<PartResult<T> | null> {
  const known = await firstOf(
    db,
    query
      .selectFrom('troupe.job_queue')
      .select(['spec', 'state', 'outcome', 'result', 'error'])
      .where('job_id', '=', job_id),
  );
  if (known === undefined) return null;
  if (known.state !== 'finished') throw new WaitsFor(job_id);
  if (known.outcome === 'done') return { spec: known.spec as PartResult<T>['spec'], result: known.result as T };
  const error = known.error as { readonly message?: string } | null;
  throw new TroupeError('training_failed', `Stage ${job_id} ${known.outcome}: ${error?.message ?? 'no reason'}`);
}
