/** What the operation backup does. */
import { countText, TroupeError } from '../../../errors.ts';
import { writeBackup } from '../../../store/server/backup/backup.ts';
import { backupTarget } from '../backup-places.ts';
import { bytesText } from '../bytes.ts';
import type { OutputOf, ReadContext } from '../operation.ts';

export async function backup(
  { db, project, home, version, now, progress }: ReadContext,
  { file }: { readonly file?: string },
) {
  if (file === undefined) throw new TroupeError('usage', 'Missing FILE, the file to write.', { field: 'file' });
  const report = await writeBackup(db, await backupTarget(file), {
    ...{ home, project, version, now: now() },
    onProgress: (bytes) => progress(bytes, 0, `${bytesText(bytes)} of rows and files so far, as they are unpacked`),
  });
  const some = (all: readonly string[]) =>
    `${all.slice(0, 5).join(', ')}${all.length > 5 ? ` and ${all.length - 5} more` : ''}`;
  const { missing, links } = report;
  const warnings = [
    ...(missing.length > 0 ? [`Not in the home, so not in the backup: ${some(missing)}.`] : []),
    ...(links.length > 0 ? [`Symbolic links are not copied: ${some(links)}.`] : []),
  ];
  return { ...report, warnings };
}

export const text = ({ file, rows, files, bytes }: OutputOf<typeof backup>): string =>
  `${file}: ${countText(rows, 'row')} and ${countText(files, 'file')} in ${bytesText(bytes)}`;
