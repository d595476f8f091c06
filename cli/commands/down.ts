/** `troupe down`: ends the `troupe up` of a home, also one whose terminal or npx is gone. */
import { existsSync } from 'node:fs';
import type { Command } from 'commander';
import { loadConfig } from '../../config.ts';
import { homeAt } from '../../store/server/home.ts';
import { plainCommand } from '../command.ts';
import { answer } from '../output.ts';

/** Its roles have 9 s each, all at once, before they are killed; a processor may be busy. */
const PATIENCE_MS = 60_000;

export function addTo(program: Command): void {
  plainCommand(
    program
      .command('down')
      .addHelpText(
        'after',
        '\nIt waits until that process and those that it started are gone; what was recorded stays.\n\nExamples:\n  troupe up &\n  troupe down\n  troupe down --home /var/lib/troupe --project desk',
      ),
    async (_, flags) => {
      const [{ endUp }, { namedProject, serverOf }, { projectOf }] = await Promise.all([
        import('../processes/single-up.ts'),
        import('../database.ts'),
        import('../../store/db/database.ts'),
      ]);
      const config = loadConfig(flags, process.env);
      const project = projectOf({ ...serverOf(config), ...namedProject(config) });
      const home = homeAt(config.home);
      const pid = existsSync(home.run) ? await endUp(home, project, PATIENCE_MS) : null;
      answer(
        flags,
        { home: home.root, project, pid },
        pid === null
          ? `No \`troupe up\` runs on the home ${home.root} for project ${project}.`
          : `Ended the \`troupe up\` on the home ${home.root} for project ${project} (process ${pid}).`,
      );
    },
  );
}
