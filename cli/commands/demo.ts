/** `troupe demo`: the whole loop on this machine. */
import { type Command, Option } from 'commander';
import { number, plainCommand, wholeNumber } from '../command.ts';

export function addTo(program: Command): void {
  plainCommand(
    program
      .command('demo')
      .option('--rounds <n>', 'rounds of reinforcement learning', wholeNumber('rounds'), 3)
      .option('--seed <n>', 'random seed', wholeNumber('seed'), 0)
      .addOption(
        new Option('--scale <x>', 'share of the tasks and steps, for a quick check of the setup')
          .argParser(number('scale'))
          .hideHelp(),
      )
      .addHelpText(
        'after',
        '\nExamples:\n  troupe demo\n  troupe demo --rounds 6 --seed 1\n  troupe demo --json > result.json',
      ),
    async (_, flags) => (await import('../demo/demo.ts')).demo(flags),
  );
}
