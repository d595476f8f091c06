/** Which weights a policy has: released, saved last, or those that a plan begins with. */
import { basename } from 'node:path';
import { TroupeError } from '../../../errors.ts';
import type { Db } from '../../../store/db/pool.ts';
import { anyOf, firstOf, pathHere, query, rowsOf } from '../../../store/db/query.ts';
import { givenTo } from '../../../store/loop/release/releases.ts';
import type { StepRow } from '../../learn/data/training-rows.ts';
import type { PlanPolicy } from './plan-schema.ts';

export type Checkpoint = { readonly checkpoint_id: string; readonly directory: string };

/** The model of a configured server that the calls of each policy fall back to, where a route names one. */
export type HostedModels = Readonly<Record<string, string>>;

/** The checkpoint that the policy was given last, where its files are known; null where it has none, as while another server's model answers. */
export async function releasedOf(db: Db, policy: string): Promise<Checkpoint | null> {
  const given = await givenTo(db, policy);
  return given?.directory == null ? null : { ...given, directory: given.directory };
}

const saved = query
  .selectFrom('facts.checkpoints')
  .select(['checkpoint_id', pathHere('uri').as('directory')])
  .where('uri', 'is not', null);

/** The newest checkpoint of the policy that is kept; null where there is none. */
async function lastOf(db: Db, policy: string): Promise<Checkpoint | null> {
  const own = saved.where('policy', '=', policy).where('kept', 'is not', false);
  return (await firstOf(db, own.orderBy('version', 'desc').limit(1))) ?? null;
}

/**
 * The weights that training starts with. `last` of a later round is the candidate of the round before.
 * @throws TroupeError `not_found` where there are none and the plan names no base
 */
export async function startOf(
  db: Db,
  name: string,
  { from = 'released', base }: Pick<PlanPolicy, 'from' | 'base'>,
  before: string | null,
): Promise<Checkpoint> {
  const found =
    from === 'base'
      ? null
      : from === 'released'
        ? await releasedOf(db, name)
        : ((before && (await byId(db, before))) ?? (await lastOf(db, name)));
  if (found) return found;
  if (base !== undefined) return { checkpoint_id: basename(base), directory: base };
  throw new TroupeError(
    'not_found',
    `Policy ${name} has no ${from === 'released' ? 'released checkpoint' : 'checkpoint'} yet, and policies.${name}.base names no model to start from.`,
  );
}

const byId = async (db: Db, id: string): Promise<Checkpoint | null> =>
  (await firstOf(db, saved.where('checkpoint_id', '=', id))) ?? null;

/** The task of a row, as gates pair by it; where it names none, its group or episode. */
export const taskOf = (row: StepRow): string => row.task_id ?? row.group_id ?? row.episode_id;

/** The family of each task, which is its domain, as far as tasks are recorded. */
export async function recordedFamilies(db: Db, tasks: readonly string[]): Promise<Map<string, string | null>> {
  const known = query.selectFrom('facts.tasks').select(['task_id', 'domain']).where('task_id', '=', anyOf(tasks));
  return new Map((await rowsOf(db, known)).map(({ task_id, domain }) => [task_id, domain]));
}
