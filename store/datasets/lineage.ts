/** The trail of a split's rows: which step each is, which events made it, and the hash of its content, so that changes can be named. */
import { createHash } from 'node:crypto';
import type { Unit } from './columns.ts';
import type { CompactRow } from './manifest.ts';
import type { SplitName } from './query.ts';

/** One line of `rows.jsonl`. `events` are the ids of the events that asked for and answered the call, or that began and ended the episode. */
export type Lineage = {
  readonly split: string;
  readonly row: number;
  readonly episode_id: string;
  readonly call_id: string | null;
  readonly candidate: number | null;
  readonly step_id: string | null;
  readonly events: readonly string[];
  /** Over the row's columns as PostgreSQL's binary COPY gives them: for each its length (-1 for null) and bytes. */
  readonly sha256: string;
};

export type RowTrail = {
  readonly split: SplitName;
  readonly add: (sha256: Buffer, extra: readonly (string | null)[]) => void;
  readonly count: () => number;
  /** SHA-256 over the hashes of the rows in order. */
  readonly digest: () => Buffer;
  readonly lines: () => Buffer;
  readonly compact: () => readonly CompactRow[];
};

/** An empty trail; rows come in order, with the columns of `LINEAGE` as extra. */
export function rowTrail(split: SplitName, unit: Unit): RowTrail {
  const hash = createHash('sha256');
  const lines: string[] = [];
  const compact: [string, string | null, (number | null)[]][] = [];
  return {
    split,
    add(sha256, [episode, call, candidateText, first, second]) {
      hash.update(sha256);
      const candidate = candidateText === null ? null : Number(candidateText);
      const last = compact.at(-1);
      if (unit !== 'episode' && last && last[0] === episode && last[1] === call) last[2].push(candidate);
      else compact.push([episode!, call!, [candidate]]);
      const line: Lineage = {
        split,
        row: lines.length,
        episode_id: episode!,
        call_id: call!,
        candidate,
        step_id: call === null ? null : `${call}/${candidate}`,
        events: [first, second].filter((id) => id !== null) as string[],
        sha256: sha256.toString('hex'),
      };
      lines.push(`${JSON.stringify(line)}\n`);
    },
    count: () => lines.length,
    digest: () => hash.copy().digest(),
    lines: () => Buffer.from(lines.join('')),
    compact: () => compact,
  };
}
