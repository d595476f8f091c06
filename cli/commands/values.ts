/** `troupe values`: value estimates of recorded steps. */
import { type Command, Option } from 'commander';
import type { ValueTarget } from '../../trainer/learn/data/value-rows.ts';
import { plainCommand, wholeNumber } from '../command.ts';
import { EPISODES, overEpisodes, RECORD } from '../over-episodes.ts';

export function addTo(program: Command): void {
  plainCommand(
    program
      .command('values')
      .requiredOption('--model <dir>', 'directory of the model or checkpoint')
      .requiredOption('--episodes <which>', EPISODES)
      .addOption(
        new Option(
          '--of <what>',
          'tokens: what stands before each; state: the prompt of a step; answer: with its answer',
        )
          .choices(['tokens', 'state', 'answer'])
          .default('tokens'),
      )
      .option('--record', RECORD)
      .option('--threads <n>', 'threads (TROUPE_THREADS, 1)', wholeNumber('threads'))
      .addHelpText('after', '\nExample:\n  troupe values --model ./value-model --episodes ep-1,ep-2 --record'),
    async (_, flags) => {
      const { valuePass, valuesPass } = await import('../../trainer/sample/passes.ts');
      return overEpisodes(flags, flags.of === 'tokens' ? valuesPass : valuePass(flags.of as ValueTarget));
    },
  );
}
