/** `troupe doctor`: settings, and what Troupe needs. */
import { type Command, Option } from 'commander';
import { plainCommand } from '../command.ts';
import { ROLE_NAMES } from '../processes/role-names.ts';

export function addTo(program: Command): void {
  plainCommand(
    program
      .command('doctor')
      .addOption(
        new Option('--role <role>', 'check only whether a process of this role runs on this machine').choices(
          ROLE_NAMES,
        ),
      )
      .addHelpText('after', '\nExamples:\n  troupe doctor --json\n  troupe doctor --role judge'),
    async (_, flags) => (await import('../doctor.ts')).doctor(flags),
  );
}
