/**
 * Takes archived events out of the database: in one transaction the events, the rows that were made of them, the judgements on
 * them, and the note where they lie now. Nobody appends, projects or judges meanwhile.
 */
import { hash } from 'node:crypto';
import { removeBodies } from '../../ingest/log/postgres.ts';
import type { Session } from '../db/pool.ts';
import { anyOf, countOf, firstOf, query, type SqlBool, sql, streamOf } from '../db/query.ts';
import { waitForJudges } from '../evaluate/judging/lock.ts';
import { projectBatchIn } from '../projecting/projector.ts';
import { forgetKeys } from '../projecting/reproject.ts';
import { keep, type WrittenArchive } from './archives.ts';
import { bodiesOf, CONTENT_SQL } from './files.ts';
import { heldEpisodes } from './held.ts';
import { judgingsWithout } from './judged-again.ts';
import { type PrunableGroup, type PruneWhat, prunableGroups } from './scope.ts';

/** Computes these judgings again, of these episodes only where some are given, into the schema of the transaction's search_path. */
export type JudgeAgain = (tx: Session, judgings: readonly string[], only?: ReadonlySet<string> | null) => Promise<void>;

/** The content of no events. */
const NOTHING = hash('sha256', '');

/** Nobody appends, projects or judges until the transaction ends, and the tables hold what the log holds. */
export async function standStill(tx: Session): Promise<void> {
  await waitForJudges(tx);
  await tx.query('select 1 from troupe.log_partitions order by partition for update');
  while ((await projectBatchIn(tx)) > 0);
  await tx.query('set local search_path = facts, pg_catalog');
}

/**
 * False, and nothing was removed, where the groups or their events are not what was archived any more: something came, or a job asked
 * for them. `archive` is null where all of them lie in archives already, and only their rows are removed.
 */
export async function removeArchived(
  tx: Session,
  groups: readonly PrunableGroup[],
  archive: WrittenArchive | null,
  what: PruneWhat,
  judge: JudgeAgain,
): Promise<boolean> {
  await standStill(tx);
  const keys = groups.flatMap((group) => group.keys);
  const still = await prunableGroups(tx, what, {
    held: await heldEpisodes(tx),
    groups: groups.map((group) => group.group_id),
  });
  const same = still.flatMap((group) => group.keys);
  if (keys.toSorted().join('\n') !== same.sort().join('\n')) return false;
  const events = query.selectFrom('troupe.events as e').where('e.key', '=', anyOf(keys));
  const content = await firstOf(tx, events.select(sql.raw<string>(CONTENT_SQL).as('sha256')));
  if (content!.sha256 !== (archive?.manifest.content_sha256 ?? NOTHING)) return false;

  await noteKeys(tx, groups, archive);
  await noteBodies(tx, keys);
  const episodes = groups.flatMap((group) => group.episodes);
  await countOf(tx, query.deleteFrom('troupe.judged_revisions').where('episode_id', '=', anyOf(episodes)));
  await tx.query(
    `with gone as (delete from troupe.stored_events where key = any($1::text[]) returning log, partition)
     insert into troupe.pruned_positions as p (log, partition, events) select log, partition, count(*) from gone group by 1, 2
     on conflict (log, partition) do update set events = p.events + excluded.events`,
    [keys],
  );
  await removeBodies(tx, keys);
  await forgetKeys(
    tx,
    keys,
    groups.map((group) => group.group_id),
  );
  await judge(tx, await judgingsWithout(tx, episodes));
  if (archive !== null) await keep(tx, archive);
  return true;
}

async function noteKeys(tx: Session, groups: readonly PrunableGroup[], archive: WrittenArchive | null): Promise<void> {
  const pairs = groups.flatMap(({ group_id, keys }) => keys.map((key) => ({ key, group_id })));
  await tx.query(
    `insert into troupe.pruned (key, archive_id, group_id, events, first_at, last_at, revision, judged, erased, pruned_at)
     select k.key, coalesce(p.archive_id, $2), k.group_id, s.n, s.first, s.last, e.revision, j.judged, x.key is not null, coalesce(p.pruned_at, $3)
     from json_to_recordset($1::json) as k (key text, group_id text)
     left join troupe.pruned p using (key)
     cross join lateral (select count(*) as n, min(time) as first, max(time) as last from troupe.events v where v.key = k.key) s
     left join facts.episodes e on 'e/' || e.episode_id = k.key
     left join troupe.erased x on x.key = k.key
     cross join lateral (select json_agg(json_build_array(p.judge_set, p.revision)) as judged
       from troupe.judged_revisions p where p.episode_id = e.episode_id) j
     on conflict (key) do update set revision = excluded.revision, judged = excluded.judged, in_tables = false`,
    [JSON.stringify(pairs), archive?.archive_id, archive?.written_at],
  );
}

async function noteBodies(tx: Session, keys: readonly string[]): Promise<void> {
  const names = new Set<string>();
  const judgements = streamOf(
    tx,
    query
      .selectFrom('troupe.events')
      .select(sql<string>`data::text`.as('data'))
      .where('key', '=', anyOf(keys))
      .where(sql<SqlBool>`(data ->> 'sha256' is not null or data -> 'raw' is not null)`),
  );
  for await (const rows of judgements) for (const { data } of rows) for (const name of bodiesOf(data)) names.add(name);
  await countOf(
    tx,
    query
      .insertInto('troupe.unneeded_bodies')
      .columns(['sha256'])
      .expression(query.selectNoFrom(sql<string>`unnest(${[...names]}::text[])`.as('sha256')))
      .onConflict((known) => known.doNothing()),
  );
}
