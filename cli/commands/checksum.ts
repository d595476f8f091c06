/** `troupe checksum`: a SHA-256 of each table. */
import type { Command } from 'commander';
import { projectCommand } from '../command.ts';
import { print, printJson, table } from '../output.ts';

export function addTo(program: Command): void {
  projectCommand(
    program
      .command('checksum')
      .addHelpText(
        'after',
        '\nThe same facts have the same sums, in whatever order and in however many parts they came.\n\nExample:\n  troupe checksum --json',
      ),
    async ({ db, catchUp, patiently }, _, flags) => {
      await catchUp();
      const { checksum } = await import('../../store/projecting/rebuilding/checksum.ts');
      const sums = await patiently(() => checksum(db));
      if (flags.json) printJson(sums);
      else
        print(
          table(
            ['table', 'rows', 'sha256'],
            Object.entries(sums.tables).map(([name, { rows, sha256 }]) => [name, rows, sha256]),
          ),
        );
    },
  );
}
