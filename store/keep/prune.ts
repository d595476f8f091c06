/**
 * Pruning: old episodes go from the database into an archive of Parquet files, in a folder or a bucket. A batch of whole groups is written, flushed, read back
 * and compared; then it is removed in one transaction, which compares again. Killed at any moment, all of a batch is in the database or
 * none of it, and the next run clears away what was half written.
 */
import { randomBytes } from 'node:crypto';
import type { Db, Session } from '../db/pool.ts';
import { firstOf, query } from '../db/query.ts';
import { takeLock } from '../projecting/rebuilding/lock.ts';
import { episodesOf } from '../projecting/reproject.ts';
import { keepArchive, sweepArchives, type WrittenArchive } from './archives.ts';
import type { ArchivedEvent } from './files.ts';
import { heldEpisodes } from './held.ts';
import type { Places } from './places.ts';
import { type JudgeAgain, removeArchived } from './remove.ts';
import { removeUnneeded } from './removed-bodies.ts';
import { type PrunableGroup, type PruneWhat, prunableGroups } from './scope.ts';

export type PruneOptions = PruneWhat & {
  /** The folder, or the prefix of a bucket, that gets one for each archive. */
  readonly to: string;
  readonly places: Places;
  /** Episodes at most; whole groups only. */
  readonly limit?: number | null;
  readonly codeVersion: string;
  readonly judge: JudgeAgain;
  readonly bodies: {
    /** Null for a body that is gone. */
    readonly get: (sha256: string) => Promise<Uint8Array | null>;
    readonly remove: (sha256: string) => Promise<boolean>;
  };
  readonly onProgress?: (progress: { readonly events: number; readonly total: number }) => void;
  /** Called between the two halves of a batch; what it throws ends the run there. */
  readonly onArchived?: (archive: WrittenArchive) => Promise<void> | void;
};

export type PrunePlan = {
  readonly groups: number;
  readonly episodes: number;
  /** Of these, those whose events lie in archives already: only their rows go. */
  readonly archived: number;
  readonly events: number;
  /** Of the events' data, as JSON text. */
  readonly bytes: number;
};

export type Pruning = PrunePlan & {
  readonly archives: readonly {
    readonly archive_id: string;
    readonly uri: string;
    readonly episodes: number;
    readonly events: number;
    readonly bytes: number;
    readonly files: readonly string[];
  }[];
  /** Bodies of artifacts that nothing names any more. */
  readonly artifacts: number;
  /** Groups about which something came while they were archived; they stay. */
  readonly changed: number;
};

/** A batch ends with the group that makes it so large. */
const BATCH = { events: 20_000, bytes: 64 * 1024 * 1024, archived: 2_000 };

/** What would be pruned; changes nothing. */
export async function planPrune(db: Db, what: PruneWhat, limit: number | null = null): Promise<PrunePlan> {
  const read = (tx: Session) => chosen(tx, what, limit);
  return sumOf(await db.transaction(read, { isolation: 'repeatable read', readOnly: true }));
}

const chosen = async (tx: Session, what: PruneWhat, limit: number | null): Promise<PrunableGroup[]> =>
  upTo(await prunableGroups(tx, what, { held: await heldEpisodes(tx) }), limit);

const sumOf = (groups: readonly PrunableGroup[]): PrunePlan => ({
  groups: groups.length,
  episodes: groups.reduce((sum, group) => sum + group.episodes.length, 0),
  archived: groups.reduce((sum, group) => sum + episodesOf(group.archived).length, 0),
  events: groups.reduce((sum, group) => sum + group.events, 0),
  bytes: groups.reduce((sum, group) => sum + group.bytes, 0),
});

/** The first groups that together have no more episodes than that. */
function upTo(groups: readonly PrunableGroup[], limit: number | null): PrunableGroup[] {
  let episodes = 0;
  return groups.filter((group) => {
    episodes += group.episodes.length;
    return limit === null || episodes <= limit;
  });
}

/** Needs a pool of two connections or more. @throws TroupeError `conflict` while a rebuild, another prune or a restore runs. */
export const prune = (db: Db, options: PruneOptions): Promise<Pruning> =>
  // The lock is held by a transaction of its own: it ends with this process.
  db.transaction(async (lock) => {
    await takeLock(lock);
    await sweepArchives(db, options.places);
    const groups = await db.transaction((tx) => chosen(tx, options, options.limit ?? null), { readOnly: true });
    const { events: total } = sumOf(groups);
    const archives: Pruning['archives'][number][] = [];
    const removed: PrunableGroup[] = [];
    let [events, changed] = [0, 0];
    for (const batch of batchesOf(groups)) {
      const done = await pruneBatch(db, batch, options);
      events += sumOf(batch).events;
      options.onProgress?.({ events, total });
      if (done === 'changed') changed += batch.length;
      else {
        removed.push(...batch);
        if (done !== null) archives.push(archiveReport(done));
      }
    }
    const artifacts = await removeUnneeded(db, options.bodies.remove);
    return { ...sumOf(removed), archives, artifacts, changed };
  });

const archiveReport = ({ archive_id, uri, manifest }: WrittenArchive): Pruning['archives'][number] => ({
  archive_id,
  uri,
  episodes: manifest.episodes,
  events: manifest.events,
  bytes: manifest.files.reduce((sum, file) => sum + file.bytes, 0),
  files: manifest.files.map((file) => file.name),
});

function* batchesOf(groups: readonly PrunableGroup[]): Generator<PrunableGroup[]> {
  let batch: PrunableGroup[] = [];
  for (const group of groups) {
    batch.push(group);
    const { events, bytes, archived } = sumOf(batch);
    if (events < BATCH.events && bytes < BATCH.bytes && archived < BATCH.archived) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}

/** Answers with the archive, null where none was needed. Where the groups changed meanwhile nothing of one stays. */
async function pruneBatch(
  db: Db,
  batch: readonly PrunableGroup[],
  options: PruneOptions,
): Promise<WrittenArchive | null | 'changed'> {
  const archive = await archiveOf(db, batch, options);
  if (archive !== null) await options.onArchived?.(archive);
  const done = await db.transaction((tx) => removeArchived(tx, batch, archive, options, options.judge));
  if (done) return archive;
  await sweepArchives(db, options.places);
  return 'changed';
}

/** Null where everything lies in archives already. */
async function archiveOf(
  db: Db,
  batch: readonly PrunableGroup[],
  { now, to, places, codeVersion, bodies }: PruneOptions,
): Promise<WrittenArchive | null> {
  const leaving = batch.filter((group) => group.archived.length < group.keys.length);
  if (leaving.length === 0) return null;
  const { episodes, archived } = sumOf(leaving);
  const facts = {
    archive_id: archiveId(now),
    code_version: codeVersion,
    schema: await schemaOf(db),
    written_at: now.toISOString(),
    episodes: episodes - archived,
    groups: leaving.length,
  };
  const keys = leaving.flatMap((group) => group.keys);
  const source = { events: storedEvents(db, keys), body: bodies.get };
  return keepArchive(db, { parent: to, places }, facts, source);
}

/** Sorts by day. */
export const archiveId = (now: Date): string => `${now.toISOString().slice(0, 10)}-${randomBytes(6).toString('hex')}`;

export async function schemaOf(db: Session): Promise<number> {
  const newest = query.selectFrom('troupe.migrations').select('number').orderBy('number', 'desc').limit(1);
  return (await firstOf(db, newest))!.number;
}

type ArchiveRow = Omit<ArchivedEvent, 'time' | 'recorded_at'> & {
  readonly time: string | null;
  readonly recorded_at: string;
};

async function* storedEvents(db: Db, keys: readonly string[]): AsyncGenerator<ArchivedEvent[]> {
  const rows = db.stream<ArchiveRow>(
    `select log, partition, position, key, source, id, name, type_version, (extract(epoch from time) * 1000000)::bigint::text as time, data::text as data, digest,
            (extract(epoch from recorded_at) * 1000000)::bigint::text as recorded_at
     from troupe.events where key = any($1::text[]) order by log, partition, position`,
    [keys],
    { batch: 500 },
  );
  for await (const batch of rows)
    yield batch.map((row) => ({
      ...row,
      time: row.time === null ? null : BigInt(row.time),
      recorded_at: BigInt(row.recorded_at),
    }));
}
