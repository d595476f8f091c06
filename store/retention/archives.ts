/** The archives of a project, and the folders that a killed process left between the state of the database and of the disk. */
import { rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { draftAt, draftPath, writeError } from '../datasets/publish.ts';
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

/** Removes what an archive that was begun and not finished, or that another took the place of, left on the disk. */
export async function sweepArchives(db: Db): Promise<void> {
  const rows = await rowsOf(
    db,
    query
      .selectFrom('troupe.archives')
      .select(['archive_id', 'uri', 'draft'])
      .where('state', 'in', ['writing', 'replaced']),
  );
  for (const { archive_id, uri, draft } of rows) {
    for (const path of [uri, ...(draft === null ? [] : [draft])]) await removeFolder(path);
    await countOf(db, query.deleteFrom('troupe.archives').where('archive_id', '=', archive_id));
  }
}

/** Gone at once for readers, then from the disk. */
async function removeFolder(path: string): Promise<void> {
  const aside = `${path}.removed`;
  await rm(aside, { recursive: true, force: true });
  await rename(path, aside).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
  });
  await rm(aside, { recursive: true, force: true });
}

export type Written = ArchiveFacts & {
  readonly folder: string;
  readonly manifest: ArchiveManifest;
  readonly sha256: string;
};

/**
 * Writes an archive to `<parent>/<archive_id>` and reads it back: when this answers it is durable and whole. The database knows of it,
 * as `writing`, before the disk has anything of it; its user changes that in the transaction that makes it needed.
 */
export async function keepArchive(
  db: Db,
  parent: string,
  facts: ArchiveFacts,
  source: {
    readonly events: AsyncIterable<readonly ArchivedEvent[]>;
    readonly body: (sha256: string) => Promise<Uint8Array | null>;
  },
): Promise<Written> {
  const folder = join(parent, facts.archive_id);
  const path = draftPath(parent);
  const { archive_id, written_at } = facts;
  await countOf(
    db,
    query.insertInto('troupe.archives').values({ archive_id, uri: folder, draft: path, state: 'writing', written_at }),
  );
  const draft = await draftAt(path);
  try {
    const { sha256 } = await writeArchive(draft, facts, source.events, source.body);
    await draft.publish(folder);
    const found = await readManifest(folder);
    await verifyArchive(folder, found.manifest);
    return { ...facts, folder, manifest: found.manifest, sha256 };
  } catch (error) {
    await draft.discard();
    throw writeError(error, 'The archive', parent);
  }
}

/** In the transaction from which on its events are nowhere else. */
export async function keep(tx: Session, { archive_id, manifest, sha256 }: Written): Promise<void> {
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
