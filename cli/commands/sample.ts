/** `troupe sample`: text of a model. */
import type { Command } from 'commander';
import { loadConfig } from '../../config.ts';
import { TroupeError } from '../../errors.ts';
import { number, plainCommand, wholeNumber } from '../command.ts';
import { print, printJson } from '../output.ts';
import { speaker } from '../speaker.ts';

export function addTo(program: Command): void {
  const ids = (text: string) => text.split(',').map((id) => wholeNumber('prompt-ids')(id.trim()));

  plainCommand(
    program
      .command('sample')
      .requiredOption('--model <dir>', 'directory of the model or checkpoint')
      .option('--prompt-ids <ids>', 'token ids, separated by commas', ids)
      .option('--prompt <text>', 'text instead of ids')
      .option('--max-tokens <n>', 'maximum number of new tokens', wholeNumber('max-tokens'), 64)
      .option('--temperature <x>', '0 is greedy', number('temperature'), 1)
      .option('--top-k <n>', 'sample from the N most likely tokens; 0: all', wholeNumber('top-k'), 0)
      .option(
        '--top-p <x>',
        'sample from the most likely tokens that hold this share of the probability',
        number('top-p'),
        1,
      )
      .option(
        '--min-p <x>',
        'sample from tokens at least this share as likely as the most likely one',
        number('min-p'),
        0,
      )
      .option('--stop <text...>', 'stop at any of these texts')
      .option('--threads <n>', 'threads (TROUPE_THREADS, 1)', wholeNumber('threads'))
      .option('--seed <n>', 'seed', wholeNumber('seed'), 0)
      .option('--n <n>', 'samples', wholeNumber('n'), 1)
      .addHelpText(
        'after',
        '\nExample:\n  troupe sample --model ./checkpoint --prompt-ids 1,2,3 --max-tokens 8 --temperature 0 --json',
      ),
    async (_, flags) => {
      const config = loadConfig(flags, process.env);
      if (flags.promptIds === undefined && !flags.prompt)
        throw new TroupeError('usage', 'Missing --prompt TEXT or --prompt-ids 1,2,3.');
      const { model, policy } = await speaker(String(flags.model), config.threads);
      const promptIds = (flags.promptIds as number[] | undefined) ?? model.tokenizer.encodePrompt(String(flags.prompt));
      const stops = (flags.stop as string[] | undefined) ?? [];
      /** A model may have more ids than its tokenizer has tokens; such an id has no text. */
      const textOf = (ids: readonly number[]) =>
        model.tokenizer.decode(ids.filter((id) => model.tokenizer.token(id) !== null));
      /** The text before the first stop, or null where there is none. */
      const untilStop = (text: string): string | null => {
        const ends = stops.map((stop) => text.indexOf(stop)).filter((end) => end >= 0);
        return ends.length === 0 ? null : text.slice(0, Math.min(...ends));
      };
      const [samples] = await policy.sample([
        {
          promptIds,
          n: Number(flags.n),
          maxTokens: Number(flags.maxTokens),
          temperature: Number(flags.temperature),
          topK: Number(flags.topK),
          topP: Number(flags.topP),
          minP: Number(flags.minP),
          seed: Number(flags.seed),
          stopIds: model.eosIds,
          ...(stops.length === 0 ? {} : { ended: (ids) => untilStop(textOf(ids)) !== null }),
        },
      ]);
      await policy.close();
      const answers = samples!.map(({ tokenIds, logprobs }) => ({ token_ids: tokenIds, logprobs }));
      if (flags.json) printJson(Number(flags.n) === 1 ? answers[0] : { samples: answers });
      else {
        for (const { tokenIds } of samples!) {
          const text = textOf(tokenIds);
          print(untilStop(text) ?? text);
        }
      }
    },
  );
}
