/** What the operation erase does. */
import { existsSync } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { TroupeError } from '../../../errors.ts';
import { archivePlaces } from '../archive-places.ts';
import type { ChangeContext } from '../operation.ts';

export async function erase(
  { db, catchUp, patiently, log, home, artifacts, now, version }: ChangeContext,
  asked: {
    readonly subject?: string;
    readonly episode?: string;
    readonly reason?: string;
    readonly keep_datasets: boolean;
    readonly dry_run: boolean;
  },
) {
  const { subject, episode, reason = null } = asked;
  if ((subject === undefined) === (episode === undefined))
    throw new TroupeError('usage', 'Missing --subject ID or --episode ID; give exactly one.');
  const what = subject === undefined ? { episode: episode! } : { subject };
  const [{ planErasure }, { archivedScope, eraseEverywhere }, { judgeAgain }] = await Promise.all([
    import('../../../store/keep/erase.ts'),
    import('../../../store/keep/erase-archived.ts'),
    import('../../../store/evaluate/judging/judge.ts'),
  ]);
  await catchUp();
  const archived = await patiently(() => archivedScope(db, what, archivePlaces));
  const { events: archived_events } = archived;
  if (asked.dry_run) {
    const { keys: _, datasets, ...plan } = await patiently(() => planErasure(db, what, archived.keys));
    const archives = [...archived.archives, ...archived.unread.map(({ archive, why }) => ({ archive, why }))];
    return {
      ...{ ...plan, erasure_id: null, bodies: 0, archived_events, warnings: [] },
      datasets: datasets.map(({ dataset_id }) => ({ dataset_id, removed: false })),
      archives: archives.map(({ archive: { uri }, ...one }) => ({
        ...{ uri, rewritten: false, why: 'why' in one ? one.why : null },
      })),
    };
  }
  const warnings: string[] = [];
  const { archives, ...erasure } = await eraseEverywhere(db, what, {
    ...{ codeVersion: version, places: archivePlaces, log, now, judge: judgeAgain, patiently, reason },
    removeBody: artifacts.remove,
    removeDataset: async ({ uri }) => {
      if (uri === null) return false;
      // Erased before, or removed by hand; of a place that is no path here nothing is known.
      if (!uri.includes('://') && !existsSync(resolve(uri))) return true;
      if (asked.keep_datasets) return false;
      if (dirname(resolve(uri)) === resolve(home.datasets)) return removed(resolve(uri));
      // A place elsewhere is left to whoever chose it.
      warnings.push(`${resolve(uri)} lies outside ${home.datasets}; remove it yourself.`);
      return false;
    },
  });
  await catchUp();
  const places = archives.map(({ uri, rewritten, why }) => ({ uri, rewritten, why }));
  return { ...erasure, archived_events, archives: places, warnings };
}

/** The folder goes at once for its readers, and then from the disk. */
async function removed(path: string): Promise<true> {
  await rename(path, `${path}.erased`);
  await rm(`${path}.erased`, { recursive: true, force: true });
  return true;
}
