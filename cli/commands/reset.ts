/** `troupe reset`: deletes what Troupe put into a home, and nothing else. */
import { existsSync } from 'node:fs';
import { rm, rmdir } from 'node:fs/promises';
import type { Command } from 'commander';
import { loadConfig } from '../../config.ts';
import { TroupeError } from '../../errors.ts';
import { type Home, homeAt } from '../../store/server/home.ts';
import { plainCommand } from '../command.ts';
import { answer } from '../output.ts';

export function addTo(program: Command): void {
  plainCommand(
    program
      .command('reset')
      .option('--yes', 'do not ask for confirmation')
      .addHelpText(
        'after',
        '\nIt refuses while anything works on the home.\n\nExample:\n  troupe reset --yes --home ./trial',
      ),
    async (_, flags) => {
      const home = homeAt(loadConfig(flags, process.env).home);
      const there = existsSync(home.root);
      if (there && !flags.yes)
        throw new TroupeError(
          'usage',
          `This would remove everything Troupe stores in ${home.root}. Pass --yes to confirm.`,
        );
      if (there) await removeHome(home);
      answer(
        flags,
        { home: home.root, removed: there },
        there ? `Removed everything Troupe stored in ${home.root}.` : `There is no home at ${home.root}.`,
      );
    },
  );
}

/** How long an embedded server outlives its last user, and a little. */
const LINGER_MS = 2600;

/** Only what Troupe put there: the folder may hold something else. */
async function removeHome(home: Home): Promise<void> {
  const [{ isServing }, { removeCluster }] = await Promise.all([
    import('../../store/server/share.ts'),
    import('../../store/server/cluster.ts'),
  ]);
  for (let looks = 1; await isServing(home); looks++) {
    if (looks === 3) {
      throw new TroupeError(
        'busy',
        `The home ${home.root} is in use; stop what runs on it (troupe up, run, demo) first.`,
      );
    }
    // Looking makes us a user for a moment, so the server's last breath begins anew.
    await new Promise((resolve) => setTimeout(resolve, LINGER_MS));
  }
  removeCluster(home.data);
  for (const folder of [home.datasets, home.checkpoints, home.artifacts, home.archives, home.sealed, home.run])
    await rm(folder, { recursive: true, force: true });
  await rmdir(home.root).catch(() => {});
}
