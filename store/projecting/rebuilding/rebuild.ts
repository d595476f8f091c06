/**
 * All tables made again from the log alone, and from what of it lies in archives. The new tables are filled in a schema of their own
 * beside live ingest; the last events, and the swap, are one transaction: readers see the old tables or the new ones, never half. The old
 * ones go when nobody waits for it.
 */
import { TroupeError } from '../../../errors.ts';
import { VIEW_SCHEMAS } from '../../../migrations/views.ts';
import { sqlState } from '../../db/faults.ts';
import type { Db, Session } from '../../db/pool.ts';
import { facts, firstOf, query, rowsOf, sql } from '../../db/query.ts';
import { waitForJudges } from '../../evaluate/judging/lock.ts';
import { inFolders, type Places } from '../../keep/places.ts';
import { lockAllPartitions } from '../partitions.ts';
import { projectByKey } from '../project-by-key.ts';
import { batches, projectBatchIn } from '../projector.ts';
import { type ArchivedFiles, archivedToRead, dropBodies, noteShown, projectArchived } from './archived.ts';
import { takeLock, tryLock } from './lock.ts';

export type RebuildOptions = {
  /** Computes the judgements that the rebuilt `judgings` name, into the schema that the transaction's search_path points at. */
  readonly judge: (tx: Session, judgings: readonly string[]) => Promise<void>;
  /** Whether the tables shall hold what lies in archives too. Without it they hold the archived episodes that they held before. */
  readonly archived?: boolean;
  /** Where archives lie; folders if omitted. */
  readonly places?: Places;
  /** Events of a transaction while the new tables are filled. */
  readonly portion?: number;
  readonly onProgress?: (progress: { readonly applied: number; readonly total: number }) => void;
  /** Ends the rebuild between two portions, at the latest before the swap. */
  readonly signal?: AbortSignal;
};

const NEXT = 'facts_next';
const OLD = 'facts_old';
const PROJECTION = 'rebuild';
/** What the session of a rebuild calls itself, before how far it is: `troupe_rebuild_progress` is read from it. */
export const REBUILDING = 'troupe rebuild, ';
const SHOWN_EVERY_MS = 1000;
/** How long the swap waits for readers that hold the old tables. */
const SWAP_PATIENCE_MS = 600_000;

export type Rebuilt = {
  /** Applied, those of archives included. */
  readonly events: number;
  /** Applied from archives. */
  readonly archived: number;
  /** Those that lie in archives and are not in the tables. */
  readonly left_out: number;
};

/**
 * Rebuilds every table of facts and judgements. Needs a pool of two connections or more.
 * @throws TroupeError `conflict` while another rebuild runs and where views of others would be lost; `not_found` and `dataset_damaged`,
 * naming it, where an archive that is to be read is not there or not as it was written; `busy` when readers do not let go of the old
 * tables; `interrupted` by `signal`. Nothing is changed then.
 */
export async function rebuild(db: Db, options: RebuildOptions): Promise<Rebuilt> {
  // The lock is held by the transaction that swaps: if it is lost, so is the right to swap.
  const under = async (last: Session): Promise<Rebuilt> => {
    await takeLock(last);
    return rebuildUnderLock(db, last, options);
  };
  const done = await db.transaction(under).catch(async (error) => {
    if (error instanceof TroupeError && error.code === 'interrupted') await db.transaction(dropRemains);
    throw error;
  });
  // Taking away the files of old tables can take seconds, in which nobody could read the new ones.
  await db.transaction(dropRemains);
  return done;
}

/** Drops the tables that a rebuild left behind: those it replaced, or, where it was interrupted, those it was making. Not while one runs. */
export async function dropRemains(tx: Session): Promise<void> {
  if (await tryLock(tx)) await tx.query(`drop schema if exists ${NEXT}, ${OLD} cascade`);
}

async function rebuildUnderLock(
  db: Db,
  last: Session,
  { judge, portion, onProgress, signal, archived: all = false, places = inFolders }: RebuildOptions,
): Promise<Rebuilt> {
  const { archives, leftOut } = await archivedToRead(db, all, places);
  const events = await firstOf(
    db,
    query.selectFrom('troupe.events').select(sql<number>`count(*)::integer`.as('total')),
  );
  const archived = archives.reduce((sum, one) => sum + one.events, 0);
  const total = (events?.total ?? 0) + archived;
  let applied = 0;
  let shownAt = Number.NEGATIVE_INFINITY;
  const onApplied = (events: number): void => {
    refuseInterrupted(signal);
    applied += events;
    onProgress?.({ applied, total });
    if (performance.now() - shownAt < SHOWN_EVERY_MS) return;
    shownAt = performance.now();
    // Events that come meanwhile are applied too. It fails only with the connection, which ends the rebuild at its next statement.
    last
      .query(`set local application_name = '${REBUILDING}${Math.min(100, Math.floor((100 * applied) / total))} %'`)
      .catch(() => {});
  };
  const options = { schema: NEXT, projection: PROJECTION };
  const makeTables = async () => {
    await db.transaction(beginAnew);
    // First, so that a damaged one ends the rebuild early.
    for (const archive of archives) await projectArchived(db, archive, { schema: NEXT, all, onApplied });
  };
  await projectByKey(db, { ...options, makeTables, ...(portion === undefined ? {} : { portion }), onApplied });
  const { next } = batches(db, options);
  for (;;) {
    const batch = await next();
    if (batch.applied === 0) break;
    onApplied(batch.applied);
  }
  const done = await db.transaction(async (tx) => {
    await tx.query(`set local search_path = ${NEXT}, pg_catalog`);
    const judgings = await judgingsOf(tx);
    await judge(tx, judgings);
    return new Set(judgings);
  });

  refuseInterrupted(signal);
  await waitForJudges(last);
  // The live projector waits here until the swap is committed, then goes on from the position it finds.
  await lockAllPartitions(last);
  for (;;) {
    const batch = await projectBatchIn(last, options);
    applied += batch;
    if (batch === 0) break;
  }
  await last.query(`set local search_path = ${NEXT}, pg_catalog`);
  await judge(
    last,
    (await judgingsOf(last)).filter((id) => !done.has(id)),
  );
  await refuseStrangers(last);
  refuseInterrupted(signal);
  await swap(last, all ? archives : []);
  return { events: applied, archived, left_out: leftOut };
}

function refuseInterrupted(signal: AbortSignal | undefined): void {
  if (signal?.aborted)
    throw new TroupeError(
      'interrupted',
      'The rebuild was interrupted. Nothing was changed: the tables are those of before. Run it again to rebuild them.',
    );
}

/** Empty tables, and nothing left of a rebuild that was interrupted. */
async function beginAnew(tx: Session): Promise<void> {
  await refuseStrangers(tx);
  await tx.query(`drop schema if exists ${NEXT}, ${OLD} cascade`);
  await tx.query('delete from troupe.positions where projection = $1', [PROJECTION]);
  await dropBodies(tx);
  await cloneTables(tx);
}

async function judgingsOf(tx: Session): Promise<string[]> {
  const judgings = facts.withSchema(NEXT).selectFrom('judgings');
  const rows = await rowsOf(tx, judgings.select('judge_id').orderBy('version'));
  return rows.map((row) => row.judge_id);
}

/** Views of other people on our tables would be dropped with the old schema; the documented places to read are the schemas traj and report. */
async function refuseStrangers(tx: Session): Promise<void> {
  const { rows } = await tx.query<{ view: string }>(
    `select distinct v.oid::regclass::text as view
     from pg_depend d
     join pg_rewrite r on r.oid = d.objid and d.classid = 'pg_rewrite'::regclass
     join pg_class v on v.oid = r.ev_class
     join pg_class t on t.oid = d.refobjid and d.refclassid = 'pg_class'::regclass
     where t.relnamespace = 'facts'::regnamespace and v.oid <> t.oid
       and not (v.relnamespace::regnamespace::text = any ($1) and v.relkind = 'v')`,
    [VIEW_SCHEMAS],
  );
  if (rows.length > 0) {
    throw new TroupeError(
      'conflict',
      `These views read the tables of schema facts directly and would be lost: ${rows.map((row) => row.view).join(', ')}. Let them read the views of schemas traj and report instead, or drop them, and try again.`,
    );
  }
}

async function cloneTables(tx: Session): Promise<void> {
  const tables = (await tablesOf(tx)).map(
    (table) => `create table ${NEXT}.${table} (like facts.${table} including all)`,
  );
  await tx.query([`create schema ${NEXT}`, ...tables].join('; '));
  await tx.query('select troupe.without_statistics($1)', [NEXT]);
}

/** Names of the tables of schema facts, quoted. */
async function tablesOf(tx: Session): Promise<readonly string[]> {
  const { rows } = await tx.query<{ name: string }>(
    `select quote_ident(relname) as name from pg_class where relnamespace = 'facts'::regnamespace and relkind = 'r' order by 1`,
  );
  return rows.map(({ name }) => name);
}

async function swap(tx: Session, shown: readonly ArchivedFiles[]): Promise<void> {
  await tx.query('set local search_path = pg_catalog');
  const { rows: views } = await tx.query<{ name: string; definition: string }>(
    `select format('%I.%I', c.relnamespace::regnamespace, c.relname) as name, pg_get_viewdef(c.oid) as definition
     from pg_class c where c.relnamespace::regnamespace::text = any ($1) and c.relkind = 'v' and exists (
       select from pg_rewrite r join pg_depend d on d.objid = r.oid and d.classid = 'pg_rewrite'::regclass
       join pg_class t on t.oid = d.refobjid and d.refclassid = 'pg_class'::regclass
       where r.ev_class = c.oid and t.relnamespace = 'facts'::regnamespace)`,
    [VIEW_SCHEMAS],
  );
  await lockOut(
    tx,
    views.map((view) => view.name),
  );
  await keepRevisions(tx);
  await noteShown(tx, shown, NEXT);
  await tx.query(`alter schema facts rename to ${OLD}`);
  await tx.query(`alter schema ${NEXT} rename to facts`);
  await tx.query(views.map((view) => `create or replace view ${view.name} as ${view.definition}`).join('\n'));
  // Updated in place: a projector that waits for these rows must find them again. What was pruned counts
  // as applied, which it was, and where it was the last of a partition the position stays behind it.
  await tx.query(
    `insert into troupe.positions as p (projection, log, partition, position, applied, dead)
     select 'facts', r.log, r.partition, r.position, r.applied + coalesce(w.events, 0), r.dead
     from troupe.positions r left join troupe.pruned_positions w using (log, partition) where r.projection = $1
     on conflict (projection, log, partition) do update set position = greatest(p.position, excluded.position), applied = excluded.applied, dead = excluded.dead`,
    [PROJECTION],
  );
  await tx.query('delete from troupe.positions where projection = $1', [PROJECTION]);
}

/**
 * Takes the old tables and their views for this transaction alone. Each try waits shorter than the server's deadlock check, so that a
 * reader which holds one table and wants the next goes first, and new readers never queue for long behind an old one.
 */
async function lockOut(tx: Session, views: readonly string[]): Promise<void> {
  const wanted = [...views, ...(await tablesOf(tx)).map((table) => `facts.${table}`)].join(', ');
  const deadline = performance.now() + SWAP_PATIENCE_MS;
  for (;;) {
    await tx.query(`savepoint before_lock; set local lock_timeout = '200ms'`);
    try {
      await tx.query(`lock table ${wanted} in access exclusive mode`);
      return;
    } catch (error) {
      if (!['55P03', '40P01'].includes(sqlState(error) ?? '')) throw error;
      await tx.query('rollback to savepoint before_lock');
      if (performance.now() > deadline) {
        throw new TroupeError(
          'busy',
          'Readers hold the old tables, so the new ones could not be put in their place; end the long queries and try again.',
          { cause: error },
        );
      }
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/**
 * By this number the judge knows what changed since it looked. It goes on from where the old tables were, and one further where the new
 * ones hold what the old ones had not yet: an event of the episode, another word about its task, feedback that came or went.
 */
async function keepRevisions(tx: Session): Promise<void> {
  await tx.query(
    `with touched as (
       select distinct e.key from troupe.positions p join troupe.events e on e.log = p.log and e.partition = p.partition and e.position >= p.position
       where p.projection = 'facts'
     ), changed as (
       select substr(key, 3) as episode_id from touched where key like 'e/%'
       union select resolved_episode_id from ${NEXT}.feedback join touched using (key) where resolved_episode_id is not null
       union select o.resolved_episode_id from facts.feedback o join ${NEXT}.feedback n using (key, feedback_id)
         where o.target_kind = 'foreign' and o.resolved_episode_id is distinct from n.resolved_episode_id
       union select episode_id from ${NEXT}.episodes where task_id in (
         select substr(key, 3) from touched where key like 't/%'
         union select task_id from ${NEXT}.told_tasks t join touched on touched.key = 'e/' || t.episode_id
       )
     )
     update ${NEXT}.episodes n set revision = now.revision
     from facts.episodes o left join changed using (episode_id)
     cross join lateral (select o.revision + (changed.episode_id is not null)::integer as revision) now
     where o.episode_id = n.episode_id and n.revision <> now.revision`,
  );
}
