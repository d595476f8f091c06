/** The archives of a project, and what a killed process left of them between the state of the database and of the place where they lie. */
import { writeError } from '../datasets/publish.ts';
import type { Db, Session } from '../db/pool.ts';
import { anyOf, countOf, query, rowsOf } from '../db/query.ts';
import {
  type ArchivedEvent,
  type ArchiveFacts,
  type ArchiveManifest,
  readManifest,
  verifyArchive,
  writeArchive,
} from './files.ts';
import { below, type Places } from './places.ts';

export type ArchiveState = 'writing' | 'kept' | 'restored' | 'replaced';
export type ArchiveRow = { readonly archive_id: string; readonly uri: string; readonly state: ArchiveState };

export const archivesOf = (db: Session, states: readonly ArchiveState[]): Promise<ArchiveRow[]> =>
  rowsOf(
    db,
    query
      .selectFrom('troupe.archives')
      .select(['archive_id', 'uri', 'state'])
      .where('state', '=', anyOf(states))
      .orderBy('archive_id'),
  );

/** Removes what is left of archives that were begun and not finished, or that others took the place of. */
export async function sweepArchives(db: Db, places: Places): Promise<void> {
  const rows = await rowsOf(
    db,
    query
      .selectFrom('troupe.archives')
      .select(['archive_id', 'uri', 'draft'])
      .where('state', 'in', ['writing', 'replaced']),
  );
  for (const { archive_id, uri, draft } of rows) {
    const { remove } = await places(uri);
    for (const path of [uri, ...(draft === null ? [] : [draft])]) await remove(path);
    await countOf(db, query.deleteFrom('troupe.archives').where('archive_id', '=', archive_id));
  }
}

export type WrittenArchive = ArchiveFacts & {
  readonly uri: string;
  readonly manifest: ArchiveManifest;
  readonly sha256: string;
};

/**
 * Writes an archive to `<parent>/<archive_id>` and reads it back: when this answers it is durable and whole. The database knows of it,
 * as `writing`, before the place has anything of it; its user changes that in the transaction that makes it needed.
 */
export async function keepArchive(
  db: Db,
  { parent, places }: { readonly parent: string; readonly places: Places },
  facts: ArchiveFacts,
  source: {
    readonly events: AsyncIterable<readonly ArchivedEvent[]>;
    readonly body: (sha256: string) => Promise<Uint8Array | null>;
  },
): Promise<WrittenArchive> {
  const { archive_id, written_at } = facts;
  const place = await places(parent);
  const uri = below(parent, archive_id);
  const draft = place.draftOf(uri);
  const noted = query.insertInto('troupe.archives').values({ archive_id, uri, draft, state: 'writing', written_at });
  await countOf(db, noted);
  const writing = await place.begin(uri, draft);
  try {
    const { sha256 } = await writeArchive(writing, facts, source.events, source.body);
    await writing.publish(uri);
    const files = place.at(uri);
    const { manifest } = await readManifest(files);
    await verifyArchive(files, manifest);
    return { ...facts, uri, manifest, sha256 };
  } catch (error) {
    // What cannot be removed now is noted as being written, and goes with the next run.
    await writing.discard().catch(() => {});
    throw writeError(error, 'The archive', parent);
  }
}

/** In the transaction from which on its events are nowhere else. */
export async function keep(tx: Session, { archive_id, manifest, sha256 }: WrittenArchive): Promise<void> {
  const bytes = manifest.files.reduce((sum, file) => sum + file.bytes, 0);
  const { episodes, events } = manifest;
  await countOf(
    tx,
    query
      .updateTable('troupe.archives')
      .set({ state: 'kept', draft: null, sha256, episodes, events, bytes })
      .where('archive_id', '=', archive_id),
  );
}
