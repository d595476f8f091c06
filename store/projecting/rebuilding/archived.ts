/**
 * The rows of what lies in archives, made where it lies: the events of an archive are in the log within one transaction, which takes them
 * out again. What stays are the rows, and the bodies that they name.
 */
import { TroupeError } from '../../../errors.ts';
import { KEYED } from '../../../ingest/log/keyed.ts';
import { removeBodies } from '../../../ingest/log/postgres.ts';
import type { Db, Session } from '../../db/pool.ts';
import { anyOf, countOf, query, rowsOf, sql } from '../../db/query.ts';
import { type ArchiveManifest, eventsIn, readManifest } from '../../keep/files.ts';
import { lookedAgain, restorable } from '../../keep/notes.ts';
import type { ArchiveFiles, Places } from '../../keep/places.ts';
import { putBack } from '../../keep/put-back.ts';

export type ArchivedFiles = {
  readonly archive_id: string;
  readonly files: ArchiveFiles;
  readonly manifest: ArchiveManifest;
  /** Of the keys that may be in the tables. */
  readonly events: number;
};

/**
 * The archives whose events the tables shall hold, all or those that they hold now, and how many events lie in the others.
 * @throws TroupeError naming an archive that is not there, or is not the one that was written
 */
export async function archivedToRead(
  db: Db,
  all: boolean,
  places: Places,
): Promise<{ readonly archives: readonly ArchivedFiles[]; readonly leftOut: number }> {
  const rows = await rowsOf(
    db,
    query
      .selectFrom('troupe.pruned as p')
      .innerJoin('troupe.archives as a', 'a.archive_id', 'p.archive_id')
      .leftJoin('troupe.erased as e', 'e.key', 'p.key')
      .select(['a.archive_id', 'a.uri', 'a.sha256', 'p.in_tables', sql<number>`sum(p.events)::float8`.as('events')])
      .where((row) => row.or([row('p.erased', '=', true), row('e.key', 'is', null)]))
      .groupBy(['a.archive_id', 'a.uri', 'a.sha256', 'p.in_tables'])
      .orderBy('a.archive_id'),
  );
  const wanted = rows.filter((row) => all || row.in_tables);
  const archives: ArchivedFiles[] = [];
  for (const archive_id of new Set(wanted.map((row) => row.archive_id))) {
    const own = wanted.filter((row) => row.archive_id === archive_id);
    const files = (await places(own[0]!.uri)).at(own[0]!.uri);
    const manifest = await manifestOf(files, own[0]!.sha256);
    archives.push({ archive_id, files, manifest, events: sumOf(own) });
  }
  return { archives, leftOut: sumOf(rows) - sumOf(wanted) };
}

const sumOf = (rows: readonly { readonly events: number }[]): number => rows.reduce((sum, row) => sum + row.events, 0);

async function manifestOf(files: ArchiveFiles, sha256: string | null): Promise<ArchiveManifest> {
  const read = await readManifest(files).catch((error: unknown) => {
    throw unread(error, files);
  });
  if (read.sha256 === sha256) return read.manifest;
  throw unread(new TroupeError('dataset_damaged', `${files.uri} is not the archive that was written there.`), files);
}

/** The same error, with what to do. */
function unread(error: unknown, { uri }: ArchiveFiles): unknown {
  if (!(error instanceof TroupeError)) return error;
  const hint = `Nothing was changed. Put the archive back to ${uri}, or, where it lies elsewhere now, bring its episodes back with \`troupe prune restore PLACE\`. Without them: \`troupe prune\` takes them out of the tables, and \`troupe rebuild\` without --archived leaves them out.`;
  return new TroupeError(error.code, error.message, { hint, cause: error });
}

/** Makes the rows of an archive in a schema. Holds one file of it at a time. @throws TroupeError as `archivedToRead`, for its files */
export async function projectArchived(
  db: Db,
  { archive_id, files, manifest, events }: ArchivedFiles,
  {
    schema,
    all,
    onApplied,
  }: { readonly schema: string; readonly all: boolean; readonly onApplied: (events: number) => void },
): Promise<void> {
  const settings = `set local search_path = ${schema}, pg_catalog; ${KEYED}`;
  await db.transaction(
    async (tx) => {
      const noted = await rowsOf(tx, restorable(archive_id));
      const keys = new Set(noted.filter((row) => all || row.in_tables).map((row) => row.key));
      let applied = 0;
      try {
        for await (const rows of eventsIn(files, manifest)) {
          const ours = rows.filter(({ key }) => keys.has(key));
          await putBack(tx, ours);
          applied += ours.length;
          onApplied(ours.length);
        }
      } catch (error) {
        throw unread(error, files);
      }
      if (applied !== events)
        throw unread(
          new TroupeError('dataset_damaged', `${files.uri} holds ${applied} of the ${events} events that are wanted.`),
          files,
        );
      await countOf(tx, query.deleteFrom('troupe.stored_events').where('key', '=', anyOf([...keys])));
    },
    { settings },
  );
}

/** Notes that the tables which take the place of the old ones, in this schema, hold what these archives do. */
export async function noteShown(tx: Session, archives: readonly ArchivedFiles[], schema: string): Promise<void> {
  await tx.query(
    lookedAgain(
      `back as (
         update troupe.pruned p set in_tables = true where archive_id = any($1::text[]) and not in_tables
           and (erased or not exists (select from troupe.erased e where e.key = p.key)) returning key, revision, judged)`,
      schema,
    ),
    [archives.map((archive) => archive.archive_id)],
  );
}

/** Removes the bodies that a rebuild left behind which did not come to its end. */
export async function dropBodies(tx: Session): Promise<void> {
  const hidden = query
    .selectFrom('troupe.bodies as b')
    .innerJoin('troupe.pruned as p', 'p.key', 'b.key')
    .select('b.key')
    .distinct()
    .where('p.in_tables', '=', false);
  const keys = (await rowsOf(tx, hidden)).map((row) => row.key);
  if (keys.length > 0) await removeBodies(tx, keys);
}
