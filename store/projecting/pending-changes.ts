/**
 * What batches left for keys of other partitions: feedback from elsewhere and its target, a task that a trace defines, an episode whose
 * task changed. It is done after the batch has committed, in a short transaction that takes the locks of these keys where they are free.
 * Where one is held, its holder looks here itself after its commit; so nobody waits for anybody, and nothing is forgotten. Events that were
 * set aside lie in the same table and are applied by `late.ts`.
 */
import { KEYED } from '../../ingest/log/keyed.ts';
import type { Db, Session } from '../db/pool.ts';
import { changedTasks, judgedEpisodesOf, type PendingChanges, taskDigests } from './derived-state.ts';
import { partitionLabel, partitionsAmong, partitionsByKey, tryPartitions } from './partitions.ts';
import { attachForeign } from './resolver.ts';
import { summarise } from './summaries.ts';
import { mendTasks } from './tasks-of-traces.ts';

/** Batches whose rest is applied together. */
const AT_ONCE = 20;

/** Applies what was left, as far as its locks are free. */
export async function applyPending(db: Db): Promise<void> {
  const settings = `set local search_path = facts, pg_catalog; set local synchronous_commit = off; ${KEYED}`;
  while (await db.transaction(applyPendingIn, { settings }));
}

/** The same inside a transaction of the caller, whose search_path names the schema. Returns whether there may be more. */
export async function applyPendingIn(tx: Session): Promise<boolean> {
  const { rows } = await tx.query<{ what: PendingChanges }>(
    `delete from troupe.pending_changes where ctid = any(array(
       select ctid from troupe.pending_changes where what->>'late' is null limit ${AT_ONCE} for update skip locked)) returning what`,
    [],
    { name: 'take_pending' },
  );
  if (rows.length === 0) return false;
  const all = (name: keyof PendingChanges): string[] => [...new Set(rows.flatMap(({ what }) => what[name]))];
  const partitionOfKey = await partitionsByKey(tx);
  const split = async (prefix: string, ids: readonly string[]) => {
    const keyOf = (id: string) => `${prefix}/${id}`;
    const held = await tryPartitions(tx, partitionsAmong(ids.map(keyOf), partitionOfKey));
    const isHeld = (id: string) => held.has(partitionLabel(partitionOfKey(keyOf(id))));
    return { mine: ids.filter(isHeld), left: ids.filter((id) => !isHeld(id)) };
  };

  const foreign = await split('x', await awaited(tx, all('foreign')));
  const attached = await attachForeign(tx, foreign.mine);
  const tasks = await split('t', all('tasks'));
  const digestsBefore = await taskDigests(tx, tasks.mine);
  await mendTasks(tx, tasks.mine);
  const played = [...new Set([...all('played'), ...(await changedTasks(tx, digestsBefore, tasks.mine))])];
  const touched = await judgedEpisodesOf(tx, played);
  const episodes = await split('e', [...new Set([...all('episodes'), ...attached, ...touched])]);
  // A summary counts as a touch.
  await summarise(tx, new Map(episodes.mine.map((id) => [id, 0])));

  const rest: PendingChanges = { foreign: foreign.left, tasks: tasks.left, played: [], episodes: episodes.left };
  const isDone = Object.values(rest).every((ids) => ids.length === 0);
  if (!isDone) await tx.query('insert into troupe.pending_changes (what) values ($1)', [JSON.stringify(rest)]);
  if (isDone) return rows.length === AT_ONCE;
  return foreign.mine.length + tasks.mine.length + episodes.mine.length > 0;
}

/** Those of these ids that feedback from elsewhere names. */
async function awaited(tx: Session, ids: readonly string[]): Promise<readonly string[]> {
  if (ids.length === 0) return [];
  const { rows } = await tx.query<{ id: string }>(
    `select distinct i.id from unnest($1::text[]) as i (id)
     cross join lateral (select from feedback f where f.key = 'x/' || i.id and f.target_kind = 'foreign' limit 1) f`,
    [ids],
    { name: 'foreign_awaited' },
  );
  return rows.map(({ id }) => id);
}
