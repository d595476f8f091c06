/** What a rebuild does. */
import { judgeAgain, lapsedMethods } from '../../../store/evaluate/judging/judge.ts';
import { rebuild as rebuildTables } from '../../../store/projecting/rebuilding/rebuild.ts';
import { archivePlaces } from '../archive-places.ts';
import type { ChangeContext } from '../operation.ts';

export async function rebuild(
  { db, patiently, progress, signal }: ChangeContext,
  { archived }: { readonly archived: boolean },
) {
  const began = performance.now();
  const done = await patiently(() =>
    rebuildTables(db, {
      judge: judgeAgain,
      archived,
      places: archivePlaces,
      signal,
      onProgress: ({ applied, total }) => progress(applied, Math.max(applied, total)),
    }),
  );
  const not_judged = await patiently(() => lapsedMethods(db));
  return { ...done, not_judged, seconds: Math.round((performance.now() - began) / 100) / 10 };
}
