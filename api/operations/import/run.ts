/** What the operation import does. */
import { type Refusal, TroupeError } from '../../../errors.ts';
import { importFiles } from '../../../ingest/files/import.ts';
import { closeImported } from '../../../store/projecting/closing.ts';
import { analyzeGrown } from '../../../store/projecting/grown-tables.ts';
import type { ChangeContext } from '../operation.ts';

export async function imported(
  context: ChangeContext,
  {
    paths,
    format,
    dry_run: dryRun,
  }: { readonly paths?: readonly string[]; readonly format?: string; readonly dry_run: boolean },
) {
  const { db, log, source, signal, progress, patiently, catchUp } = context;
  if (paths === undefined)
    throw new TroupeError('usage', 'Missing PATH, the files or folders to import.', { field: 'paths' });
  // What lies in a topic alone is known only once it was read.
  if (source !== null && !dryRun) await catchUp({ signal });
  const report = await importFiles(paths, {
    ...context,
    ...(format === undefined ? {} : { format }),
    dryRun,
    onProgress: ({ bytesDone, bytesTotal, file }) => progress(bytesDone, bytesTotal, file ?? ''),
  });
  const stays_open: (Refusal & { readonly episode_id: string })[] = [];
  if (!dryRun) {
    const { accepted } = report.events;
    const onApplied = (events: number) => progress(events, Math.max(events, accepted), 'into the tables');
    await catchUp({ signal, onApplied });
    await patiently(() => closeImported(db, log, (episode_id, refusal) => stays_open.push({ episode_id, ...refusal })));
    await catchUp({ signal });
    await patiently(() => analyzeGrown(db));
  }
  return { ...report, stays_open };
}
