/** What the operation logprobs does. */
import { readFile } from 'node:fs/promises';
import { TroupeError, unreadable } from '../../../errors.ts';
import { openNamed } from '../../../store/datasets/read.ts';
import { policyRow, type StepRow } from '../../../trainer/learn/data/training-rows.ts';
import { LOGPROB_PASSES } from '../../../trainer/sample/passes.ts';
import type { ChangeContext } from '../operation.ts';
import { overEpisodes } from '../passes-of-steps/run.ts';
import { withPolicy } from '../sample/run.ts';

export async function logprobs(
  context: ChangeContext,
  {
    data,
    episodes,
    as,
    ...input
  }: Omit<Parameters<typeof overEpisodes>[1], 'episodes'> & {
    readonly data?: string;
    readonly episodes?: string;
    readonly as: string;
  },
) {
  if (episodes !== undefined && data === undefined)
    return overEpisodes(context, { ...input, episodes }, LOGPROB_PASSES.find(({ name }) => name === as)!);
  if (episodes !== undefined || data === undefined)
    throw new TroupeError('usage', 'Missing --data FILE or --episodes WHICH; give exactly one.', { field: 'data' });
  if (input.record)
    throw new TroupeError('usage', '--record needs recorded steps: pass --episodes WHICH instead of --data.', {
      field: 'record',
    });
  const rows = await tokenRows(data, context);
  const scored = rows.map((row) => ({ promptIds: row.slice(0, 1), tokenIds: row.slice(1) }));
  return withPolicy(context, input, async (_, policy) => ({ logprobs: await policy.logprobs(scored) }));
}

async function tokenRows(data: string, { home }: ChangeContext): Promise<number[][]> {
  // A name without a / is that of a dataset, so that nobody names a file over HTTP.
  if (!/\/.*\.jsonl$/s.test(data)) {
    const dataset = await openNamed(home.datasets, data);
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
