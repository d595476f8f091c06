/** What the operation reset does. */
import { existsSync } from 'node:fs';
import { rm, rmdir } from 'node:fs/promises';
import { TroupeError } from '../../../errors.ts';
import type { Home } from '../../../store/server/home.ts';
import type { OutputOf, ReadContext } from '../operation.ts';

export async function reset({ home }: ReadContext, { dry_run }: { readonly dry_run: boolean }) {
  const there = existsSync(home.root);
  const removed = there && !dry_run;
  if (removed) await removeHome(home);
  return { home: home.root, there, removed };
}

type Output = OutputOf<typeof reset>;

export const question = ({ home, there }: Output): string | null =>
  there ? `This removes everything Troupe stores in ${home}.` : null;

export const text = ({ home, there, removed }: Output): string =>
  removed
    ? `Removed everything Troupe stored in ${home}.`
    : there
      ? `It would remove everything Troupe stores in ${home}.`
      : `There is no home at ${home}.`;

/** How long an embedded server outlives its last user, and a little. */
const LINGER_MS = 2600;

/** Only what Troupe put there: the folder may hold something else. */
async function removeHome(home: Home): Promise<void> {
  const [{ isServing }, { removeCluster }] = await Promise.all([
    import('../../../store/server/share.ts'),
    import('../../../store/server/cluster.ts'),
  ]);
  for (let looks = 1; await isServing(home); looks++) {
    if (looks === 3)
      throw new TroupeError(
        'busy',
        `The home ${home.root} is in use; stop what runs on it (troupe up, run, demo) first.`,
      );
    // Looking makes us a user for a moment, so the server's last breath begins anew.
    await new Promise((resolve) => setTimeout(resolve, LINGER_MS));
  }
  removeCluster(home.data);
  for (const folder of [home.datasets, home.checkpoints, home.artifacts, home.archives, home.sealed, home.run])
    await rm(folder, { recursive: true, force: true });
  await rmdir(home.root).catch(() => {});
}
