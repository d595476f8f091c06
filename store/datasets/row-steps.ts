/** Which steps stand in the rows of a part of a dataset. A million take 60 MB until they are asked for, and 200 MB as the event holds them. */

import type { RowStep } from './lineage.ts';
import type { CompactRow } from './manifest.ts';

export type RowSteps = {
  readonly add: (step: Pick<RowStep, 'episode_id' | 'call_id' | 'candidate'>, row: number) => void;
  /** @param form `calls`: candidates of one call stand together · `each`: every row by itself · `numbered`: with its number, since rows are left out */
  readonly list: (form: 'calls' | 'each' | 'numbered') => CompactRow[];
};

export function rowSteps(): RowSteps {
  const episodes: string[] = [];
  const calls: (string | null)[] = [];
  const candidates: (number | null)[] = [];
  const rows: number[] = [];
  return {
    add({ episode_id, call_id, candidate }, row) {
      const last = episodes.length - 1;
      // The same text is held once.
      episodes.push(episodes[last] === episode_id ? episodes[last]! : episode_id);
      calls.push(calls[last] === call_id ? calls[last]! : call_id);
      candidates.push(candidate);
      rows.push(row);
    },
    list(form) {
      const all: [string, string | null, (number | null)[], number?][] = [];
      for (const [i, episode] of episodes.entries()) {
        const call = calls[i]!;
        const last = all.at(-1);
        if (form === 'calls' && last?.[0] === episode && last[1] === call) last[2].push(candidates[i]!);
        else if (form === 'numbered') all.push([episode, call, [candidates[i]!], rows[i]!]);
        else all.push([episode, call, [candidates[i]!]]);
      }
      return all;
    },
  };
}
