/**
 * Puts archived events back at the positions they had, and restores the rows of the tables. What was erased since stays gone.
 * The archive stays where it is.
 */
import { TroupeError } from '../../errors.ts';
import type { EventName } from '../../ingest/events.ts';
import { keepBodies } from '../../ingest/log/postgres.ts';
import { splitData } from '../../ingest/log/split.ts';
import { notify } from '../db/news.ts';
import type { Db, Session } from '../db/pool.ts';
import { countOf, firstOf, query, rowsOf } from '../db/query.ts';
import { applyAt } from '../projecting/apply.ts';
import { PROJECTED_CHANNEL } from '../projecting/projector.ts';
import { partitionName } from '../projecting/read-news.ts';
import { takeLock } from '../rebuilding/rebuild.ts';
import { sweepArchives } from './archives.ts';
import { type ArchivedEvent, type ArchiveManifest, artifactsIn, eventsIn, readManifest } from './files.ts';
import { judgingsWith } from './judged-again.ts';
import type { ArchiveFiles, Places } from './places.ts';
import { type JudgeAgain, standStill } from './remove.ts';

export type RestoreOptions = {
  readonly places: Places;
  readonly judge: JudgeAgain;
  /** Makes these bodies durable, as they are. */
  readonly putBodies: (bodies: readonly Uint8Array[]) => Promise<unknown>;
  readonly onProgress?: (progress: { readonly events: number; readonly total: number }) => void;
};

export type Restored = {
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
export const restore = (db: Db, address: string, options: RestoreOptions): Promise<Restored> =>
  db.transaction(async (lock) => {
    await takeLock(lock);
    await sweepArchives(db, options.places);
    const found: { files: ArchiveFiles; manifest: ArchiveManifest }[] = [];
    for (const files of await archivesAt(address, options.places))
      found.push({ files, manifest: (await readManifest(files)).manifest });
    const total = found.reduce((sum, { manifest }) => sum + manifest.events, 0);
    const archives: Restored['archives'][number][] = [];
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
): Promise<Restored['archives'][number]> {
  await standStill(tx);
  const { archive_id } = manifest;
  await requireOurs(tx, archive_id, files.uri);
  const pruned = await rowsOf(
    tx,
    query
      .selectFrom('troupe.pruned as p')
      .leftJoin('troupe.erased as e', 'e.key', 'p.key')
      .select('p.key')
      .where('p.archive_id', '=', archive_id)
      .where((row) => row.or([row('p.erased', '=', true), row('e.key', 'is', null)])),
  );
  const keys = new Set(pruned.map((row) => row.key));
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
    await putBack(tx, back);
  }
  const events = [...counts.values()].reduce((sum, one) => sum + one.events, 0);
  const episodes = [...keys].flatMap((key) => (key.startsWith('e/') ? [key.slice(2)] : []));
  await countBack(tx, [...counts.values()]);
  await forgetNotes(tx, archive_id, [...keys]);
  const again = await judgingsWith(tx, episodes);
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

/** Events in one statement, and applied at once. */
const AT_ONCE = 1000;

async function putBack(tx: Session, events: readonly ArchivedEvent[]): Promise<void> {
  for (let from = 0; from < events.length; from += AT_ONCE) {
    const some = events.slice(from, from + AT_ONCE);
    const splits = some.map(({ name, key, data }) => splitData(name as EventName, key, JSON.parse(data), data));
    await keepBodies(
      tx,
      splits.flatMap(({ bodies }) => bodies),
    );
    const rows = some.map((event, i) => ({ ...event, data: splits[i]!.json }));
    const column = <K extends keyof ArchivedEvent>(name: K): unknown[] => rows.map((row) => row[name]);
    const digits = (name: 'position' | 'time' | 'recorded_at') => rows.map((row) => row[name]?.toString() ?? null);
    await tx.query(
      `insert into troupe.stored_events (log, partition, position, key, source, id, name, type_version, data, digest, time, recorded_at)
       select l, p, n, k, s, i, t, v, d::json, case when h ~ '^[0-9a-f]{64}$' then decode(h, 'hex') else convert_to(h, 'UTF8') end, ${fromMicroseconds('at')}, ${fromMicroseconds('came')}
       from unnest($1::smallint[], $2::smallint[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::bigint[], $11::bigint[], $12::smallint[])
         as r (l, p, n, k, s, i, t, d, h, at, came, v)`,
      [
        column('log'),
        column('partition'),
        digits('position'),
        ...(['key', 'source', 'id', 'name', 'data', 'digest'] as const).map(column),
        digits('time'),
        digits('recorded_at'),
        column('type_version'),
      ],
      { name: 'restore_events' },
    );
    await applyAt(tx, [column('log'), column('partition'), digits('position')]);
  }
}

/** In two steps, since the product of an interval is computed in floating point. */
const fromMicroseconds = (us: string): string =>
  `timestamptz 'epoch' + (${us} / 1000000) * interval '1 second' + (${us} % 1000000) * interval '1 microsecond'`;

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
    `with back as (delete from troupe.pruned where key = any($1::text[]) returning key, revision, judged),
       revised as (update facts.episodes e set revision = b.revision from back b
                   where b.revision is not null and 'e/' || e.episode_id = b.key)
     insert into troupe.judged_revisions (episode_id, judge_set, revision)
     select substr(b.key, 3), j ->> 0, (j ->> 1)::bigint from back b cross join lateral json_array_elements(b.judged) j
     where b.judged is not null on conflict do nothing`,
    [keys],
  );
  const left = query.selectFrom('troupe.pruned').select('key').where('archive_id', '=', archiveId).limit(1);
  if ((await firstOf(tx, left)) !== undefined) return;
  await countOf(tx, query.updateTable('troupe.archives').set('state', 'restored').where('archive_id', '=', archiveId));
}
