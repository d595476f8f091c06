/**
 * Puts archived events back at the positions they had, and restores the rows of the tables. What was erased since stays gone.
 * The archive stays where it is.
 */
import { TroupeError } from '../../errors.ts';
import { notify } from '../db/notifications.ts';
import type { Db, Session } from '../db/pool.ts';
import { countOf, firstOf, query, rowsOf } from '../db/query.ts';
import { PROJECTED_CHANNEL } from '../projecting/projector.ts';
import { partitionName } from '../projecting/read-batch.ts';
import { takeLock } from '../projecting/rebuilding/lock.ts';
import { sweepArchives } from './archives.ts';
import { type ArchiveManifest, artifactsIn, eventsIn, readManifest } from './files.ts';
import { judgingsWith } from './judged-again.ts';
import { lookedAgain, restorable } from './notes.ts';
import type { ArchiveFiles, Places } from './places.ts';
import { putBack } from './put-back.ts';
import { type JudgeAgain, standStill } from './remove.ts';

export type RestoreOptions = {
  readonly places: Places;
  readonly judge: JudgeAgain;
  /** Makes these bodies durable, as they are. */
  readonly putBodies: (bodies: readonly Uint8Array[]) => Promise<unknown>;
  readonly onProgress?: (progress: { readonly events: number; readonly total: number }) => void;
};

export type RestoreResult = {
  readonly archives: readonly {
    readonly archive_id: string;
    readonly uri: string;
    readonly episodes: number;
    readonly events: number;
    /** Keys of the archive that are in the database already, or were erased. */
    readonly left_out: number;
  }[];
  readonly episodes: number;
  readonly events: number;
  readonly artifacts: number;
};

/** The archives at an address. @throws TroupeError `not_found` where there is none. */
async function archivesAt(address: string, places: Places): Promise<ArchiveFiles[]> {
  const { find, at } = await places(address);
  const found = await find(address);
  if (found.length > 0) return found.map(at);
  throw new TroupeError(
    'not_found',
    `There is no archive of pruned episodes at ${address}; it should be a folder with a manifest.json, or a folder of such folders, or s3://BUCKET/PREFIX of one.`,
    { hint: 'The view traj.pruned names the place of each episode.' },
  );
}

/**
 * Restores the archives at an address, each in one transaction. Needs a pool of two connections or more.
 * @throws TroupeError `dataset_damaged` for a file that is not as it was written, `conflict` for an archive of another database and
 * while a rebuild or prune runs. What was restored before stays.
 */
export const restore = (db: Db, address: string, options: RestoreOptions): Promise<RestoreResult> =>
  db.transaction(async (lock) => {
    await takeLock(lock);
    await sweepArchives(db, options.places);
    const found: { files: ArchiveFiles; manifest: ArchiveManifest }[] = [];
    for (const files of await archivesAt(address, options.places))
      found.push({ files, manifest: (await readManifest(files)).manifest });
    const total = found.reduce((sum, { manifest }) => sum + manifest.events, 0);
    const archives: RestoreResult['archives'][number][] = [];
    let [events, artifacts] = [0, 0];
    for (const { files, manifest } of found) {
      for await (const rows of artifactsIn(files, manifest)) {
        await options.putBodies(rows.map((row) => row.body));
        artifacts += rows.length;
      }
      archives.push(await db.transaction((tx) => restoreIn(tx, files, manifest, options.judge)));
      events += manifest.events;
      options.onProgress?.({ events, total });
    }
    const sum = (of: 'episodes' | 'events') => archives.reduce((all, one) => all + one[of], 0);
    return { archives, episodes: sum('episodes'), events: sum('events'), artifacts };
  });

async function restoreIn(
  tx: Session,
  files: ArchiveFiles,
  manifest: ArchiveManifest,
  judge: JudgeAgain,
): Promise<RestoreResult['archives'][number]> {
  await standStill(tx);
  const { archive_id } = manifest;
  await requireOurs(tx, archive_id, files.uri);
  const pruned = await rowsOf(tx, restorable(archive_id));
  const keys = new Set(pruned.map((row) => row.key));
  // Their rows are there already.
  const shown = new Set(pruned.filter((row) => row.in_tables).map((row) => row.key));
  const seen = new Set<string>();
  const counts = new Map<string, { log: number; partition: number; events: number }>();
  for await (const rows of eventsIn(files, manifest)) {
    for (const { key } of rows) seen.add(key);
    const back = rows.filter(({ key }) => keys.has(key));
    for (const event of back) {
      const { log, partition } = event;
      const { events = 0 } = counts.get(partitionName(event)) ?? {};
      counts.set(partitionName(event), { log, partition, events: events + 1 });
    }
    await putBack(tx, back, shown);
  }
  const events = [...counts.values()].reduce((sum, one) => sum + one.events, 0);
  const episodes = [...keys].flatMap((key) => (key.startsWith('e/') ? [key.slice(2)] : []));
  await countBack(tx, [...counts.values()]);
  await forgetNotes(tx, archive_id, [...keys]);
  const again = await judgingsWith(
    tx,
    episodes.filter((id) => !shown.has(`e/${id}`)),
  );
  await judge(tx, again.judgings, again.only);
  await notify(tx, PROJECTED_CHANNEL);
  const left_out = [...seen].filter((key) => !keys.has(key)).length;
  return { archive_id, uri: files.uri, episodes: episodes.length, events, left_out };
}

async function requireOurs(tx: Session, archiveId: string, uri: string): Promise<void> {
  const ours = query
    .selectFrom('troupe.archives')
    .select('state')
    .where('archive_id', '=', archiveId)
    .where('state', 'in', ['kept', 'restored']);
  if ((await firstOf(tx, ours)) !== undefined) return;
  throw new TroupeError(
    'conflict',
    `The archive ${archiveId} in ${uri} was not pruned from this database, or was replaced since; choose the project that it came from with --project.`,
  );
}

type Count = { readonly log: number; readonly partition: number; readonly events: number };

async function countBack(tx: Session, counts: readonly Count[]): Promise<void> {
  await tx.query(
    `update troupe.pruned_positions p set events = p.events - b.n from unnest($1::smallint[], $2::smallint[], $3::bigint[]) as b (log, partition, n)
     where p.log = b.log and p.partition = b.partition`,
    (['log', 'partition', 'events'] as const).map((name) => counts.map((one) => one[name])),
  );
}

/** They are in the log again, and were judged as far as they had been. */
async function forgetNotes(tx: Session, archiveId: string, keys: readonly string[]): Promise<void> {
  await tx.query(
    lookedAgain(
      `gone as (delete from troupe.pruned where key = any($1::text[]) returning key, revision, judged, in_tables),
       back as (select * from gone where not in_tables)`,
      'facts',
    ),
    [keys],
  );
  const left = query.selectFrom('troupe.pruned').select('key').where('archive_id', '=', archiveId).limit(1);
  if ((await firstOf(tx, left)) !== undefined) return;
  await countOf(tx, query.updateTable('troupe.archives').set('state', 'restored').where('archive_id', '=', archiveId));
}
