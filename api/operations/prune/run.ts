/** What operations on archives of pruned episodes do. */
import { join, resolve } from 'node:path';
import { TroupeError } from '../../../errors.ts';
import { fileArtifacts } from '../../../ingest/log/artifacts.ts';
import { judgeAgain } from '../../../store/evaluate/judging/judge.ts';
import { planPrune, prune } from '../../../store/keep/prune.ts';
import { restore as restoreArchives } from '../../../store/keep/restore.ts';
import { archivePlaces } from '../archive-places.ts';
import { momentOf } from '../durations.ts';
import { chosenBy } from '../judge/run.ts';
import type { ChangeContext } from '../operation.ts';

type PruneInput = {
  readonly older_than: string;
  readonly filter?: string;
  readonly to?: string;
  readonly limit?: number | null;
  readonly dry_run: boolean;
};

export async function start(
  { db, home, now, settings, artifacts, patiently, progress, catchUp, version }: ChangeContext,
  { older_than, filter, to: place, limit = null, dry_run }: PruneInput,
) {
  const before = momentOf(older_than, now());
  await catchUp();
  const { where, warnings } = filter === undefined ? { where: null, warnings: [] } : await chosenBy(db, filter);
  const what = { before, now: now(), where, closeAfter: settings.close_after };
  const to = placeOf(place ?? home.archives);
  // Before anything is read: whether there is access to the place.
  await archivePlaces(to);
  const shown = { before: before.toISOString(), dry_run, warnings };
  if (dry_run) {
    const plan = await patiently(() => planPrune(db, what, limit));
    return { ...shown, ...plan, archives: [], artifacts: 0, changed: 0 };
  }
  const options = {
    ...{ ...what, limit, to, places: archivePlaces, codeVersion: version, judge: judgeAgain },
    bodies: {
      get: (sha256: string) => artifacts.get(sha256).catch(onlyIfGone),
      remove: artifacts.remove,
    },
    onProgress: ({ events, total }: { readonly events: number; readonly total: number }) =>
      progress(events, total, `${events} events`),
  };
  // Run again it goes on where it was, and counts what was left.
  return { ...shown, ...(await patiently(() => prune(db, options))) };
}

/** A body that was erased is not missing; one that cannot be read must not be forgotten. */
function onlyIfGone(error: unknown): null {
  if (error instanceof TroupeError && error.code === 'not_found') return null;
  throw error;
}

export async function restore(
  { db, home, patiently, progress, catchUp }: ChangeContext,
  { place }: { readonly place?: string },
) {
  await catchUp();
  const at = place === undefined ? home.archives : ARCHIVE.test(place) ? join(home.archives, place) : placeOf(place);
  return patiently(() =>
    restoreArchives(db, at, {
      places: archivePlaces,
      judge: judgeAgain,
      // As they were: rules that came since would make other bodies of them.
      putBodies: fileArtifacts(home.artifacts).put,
      onProgress: ({ events, total }) => progress(events, total, `${events} events`),
    }),
  );
}

/** The name of an archive in the home. */
const ARCHIVE = /^\d{4}-\d\d-\d\d-[0-9a-f]{12}$/;

/** Of a folder its whole path, which the database keeps. */
const placeOf = (place: string): string => (place.includes('://') ? place.replace(/\/+$/, '') : resolve(place));
