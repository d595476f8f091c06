/** What the operation restore does. */
import { countText, TroupeError } from '../../../errors.ts';
import { DEFAULT_PROJECT, openDatabase } from '../../../store/db/database.ts';
import { readManifest, restoreBackup, schemaOf } from '../../../store/server/backup/restore.ts';
import { openHome } from '../../../store/server/home.ts';
import { backupSource } from '../backup-places.ts';
import { bytesText } from '../bytes.ts';
import type { OutputOf, ReadContext } from '../operation.ts';

export async function restore(
  { server: serverOf, home: { root }, progress }: ReadContext,
  { file }: { readonly file: string },
) {
  const source = await backupSource(file);
  const manifest = await readManifest(source);
  const server = await serverOf();
  // A database that the address names is the project's.
  const named = server.project ?? (server.databaseUrl === undefined ? manifest.project : undefined);
  const home = openHome(root);
  const { db, project, close } = await openDatabase({
    ...server,
    ...(named === undefined ? {} : { project: named }),
    ...{ create: true, schema: schemaOf(manifest), applicationName: 'troupe' },
  }).catch((error: unknown) => {
    if (!(error instanceof TroupeError) || error.code !== 'schema_newer') throw error;
    const text = `The project ${named ?? DEFAULT_PROJECT} is there already, with a newer schema than the backup; restore into one that is not: another --home, or another --project.`;
    throw new TroupeError('conflict', text, { cause: error });
  });
  try {
    const onProgress = (bytes: number) =>
      progress(bytes, 0, `${bytesText(bytes)} of rows and files so far, as they are unpacked`);
    const report = await restoreBackup(db, source, { home, project, onProgress });
    const warnings = [
      `What was erased after ${report.made_at} is back, so erase it here too. If the original project still answers, this lists it, with e/ before the id of an episode: troupe sql "select distinct key from traj.events where type = 'troupe.record.amended.v1' and data ->> 'op' = 'erase' and recorded_at > '${report.made_at}'"`,
    ];
    return { ...report, home: home.root, warnings };
  } finally {
    await close();
  }
}

export const text = ({ project, home, rows, files, made_at }: OutputOf<typeof restore>): string =>
  `Project ${project} in ${home}: ${countText(rows, 'row')} and ${countText(files, 'file')}, as of ${made_at}`;
