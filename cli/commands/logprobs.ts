/** `troupe logprobs`: log-probabilities of rows or of recorded steps. */
import { readFile } from 'node:fs/promises';
import { type Command, Option } from 'commander';
import { loadConfig } from '../../config.ts';
import { EXIT, TroupeError, unreadable } from '../../errors.ts';
import { homeAt } from '../../store/server/home.ts';
import type { StepRow } from '../../trainer/learn/data/training-rows.ts';
import { type Flags, plainCommand, wholeNumber } from '../command.ts';
import { answer } from '../output.ts';
import { EPISODES, overEpisodes, RECORD } from '../over-episodes.ts';
import { speaker } from '../speaker.ts';

export function addTo(program: Command): void {
  plainCommand(
    program
      .command('logprobs')
      .requiredOption('--model <dir>', 'directory of the model or checkpoint')
      .option(
        '--data <file>',
        'JSON lines {"input_ids":[…]}, or a frozen dataset; every token of a row except the first',
      )
      .option('--episodes <which>', EPISODES)
      .addOption(
        new Option(
          '--as <pass>',
          'reference: given its prompt; masked: the next step, without this one in its prompt; alone: without its prompt',
        )
          .choices(['reference', 'masked', 'alone'])
          .default('reference'),
      )
      .option('--record', RECORD)
      .option('--threads <n>', 'threads (TROUPE_THREADS, 1)', wholeNumber('threads'))
      .addHelpText(
        'after',
        '\nExamples:\n  troupe logprobs --model ./checkpoint --data rows.jsonl --json\n  troupe logprobs --model ./reference --episodes ep-1,ep-2 --as masked --record',
      ),
    async (_, flags) => {
      if ((flags.data === undefined) === (flags.episodes === undefined))
        throw new TroupeError('usage', 'Missing --data FILE or --episodes WHICH; give exactly one.');
      if (flags.data !== undefined && flags.record)
        throw new TroupeError('usage', '--record needs recorded steps: pass --episodes WHICH instead of --data.');
      if (flags.data !== undefined) return ofFile(flags);
      const { LOGPROB_PASSES } = await import('../../trainer/sample/passes.ts');
      return overEpisodes(flags, LOGPROB_PASSES.find(({ name }) => name === flags.as)!);
    },
  );
}

async function ofFile(flags: Flags): Promise<number> {
  const config = loadConfig(flags, process.env);
  const rows = await tokenRows(String(flags.data), homeAt(config.home).datasets);
  const { policy } = await speaker(String(flags.model), config.threads);
  const logprobs = await policy.logprobs(rows.map((row) => ({ promptIds: row.slice(0, 1), tokenIds: row.slice(1) })));
  await policy.close();
  answer(flags, { logprobs }, () => logprobs.map((row) => row.map((x) => x.toFixed(4)).join(' ')).join('\n'));
  return EXIT.done;
}

async function tokenRows(data: string, datasets: string): Promise<number[][]> {
  if (!data.endsWith('.jsonl')) {
    const { policyRow } = await import('../../trainer/learn/data/training-rows.ts');
    const { openNamed } = await import('../../store/datasets/read.ts');
    const dataset = await openNamed(datasets, data);
    return ([...dataset.rows('train')] as unknown as StepRow[]).map((row) => {
      const { promptIds, tokenIds } = policyRow({ ...row, logprobs: row.logprobs ?? [] });
      return [...promptIds, ...tokenIds];
    });
  }
  const file = await readFile(data, 'utf8').catch((cause) => {
    throw unreadable(data, cause);
  });
  const lines = file.split('\n').filter((line) => line.trim() !== '');
  return lines.map((line, i) => {
    const ids = inputIds(line);
    if (Array.isArray(ids) && ids.length >= 2 && ids.every((id) => Number.isSafeInteger(id) && id >= 0))
      return ids as number[];
    throw new TroupeError('input_refused', `${data}:${i + 1} should have input_ids, a list of at least two token ids.`);
  });
}

function inputIds(line: string): unknown {
  try {
    return (JSON.parse(line) as { input_ids?: unknown } | null)?.input_ids;
  } catch {
    return null;
  }
}
