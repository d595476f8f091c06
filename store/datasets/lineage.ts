/** The trail of a split's rows: which step each is, which events made it, and the hash of its content, so that changes can be named. */
import { createHash } from 'node:crypto';
import type { SplitName, Unit } from './columns.ts';
import { inTurns } from './growing.ts';
import { LINEAGE } from './query.ts';

/** Five sixths of it repeats. A member of gzip for each batch of rows. Older datasets have one member, or no `.gz`. */
export const LINEAGE_FILE = 'rows.jsonl.gz';

/** One line of `rows.jsonl.gz`. `events` are the ids of the events that asked for and answered the call, or that began and ended the episode. */
export type Lineage = {
  readonly split: string;
  readonly row: number;
  readonly episode_id: string;
  readonly call_id: string | null;
  readonly candidate: number | null;
  readonly step_id: string | null;
  readonly events: readonly string[];
  /** The dataset that the row was replayed of. */
  readonly replay?: string;
  /** Further steps of the row: the rejected answer of a pair, the earlier answers of a branch from the last to the first. */
  readonly with?: readonly Pick<Lineage, 'episode_id' | 'call_id' | 'candidate' | 'step_id' | 'events'>[];
  /** Over the row's columns as PostgreSQL's binary COPY gives them: for each its length (-1 for null) and bytes. */
  readonly sha256: string;
};

export type RowTrail = {
  readonly split: SplitName;
  readonly add: (sha256: string, extra: readonly (string | null)[]) => void;
  /** A row that a freeze which was stopped had written. */
  readonly addLine: (line: Lineage) => void;
  readonly count: () => number;
  /** SHA-256 over the hashes of the rows in order. */
  readonly digest: () => Buffer;
  /** The lines of the rows since it was last called. Its bytes are used again after the next call. */
  readonly take: () => Buffer;
};

/** Hashes of rows that are gathered. */
const HASHES = 1024;
/** Bytes of lines that there is room for at first. */
const LINES = 64 * 1024;
const WIDTH = LINEAGE.length;
const REPLAY = LINEAGE.indexOf('replay');

/** Columns behind those of the dataset: of a pair those of both steps, of a branch one more with those of the earlier steps as JSON. */
export const extraColumns = (unit: Unit): number =>
  unit === 'pair' ? 2 * WIDTH : unit === 'branch' ? WIDTH + 1 : WIDTH;

const withEarlier = (extra: readonly (string | null)[]): readonly (string | null)[] => [
  ...extra.slice(0, WIDTH),
  ...(JSON.parse(extra[WIDTH] ?? '[]') as (string | null)[][]).flat(),
];

/** The members of a step's JSON, without braces: putting objects together and writing them took three times as long. */
function stepText(extra: readonly (string | null)[], at: number): string {
  const call = extra[at + 1] ?? null;
  const [first, second] = [extra[at + 3] ?? null, extra[at + 4] ?? null];
  const candidate = extra[at + 2] ?? null;
  const events = first === null ? [second] : second === null ? [first] : [first, second];
  return `"episode_id":${text(extra[at]!)},"call_id":${text(call)},"candidate":${candidate},"step_id":${text(
    call && `${call}/${candidate}`,
  )},"events":[${events[0] === null ? '' : events.map(text).join()}]`;
}

const text = (value: string | null): string => JSON.stringify(value);

function othersText(extra: readonly (string | null)[]): string {
  const others: string[] = [];
  for (let at = WIDTH; at < extra.length; at += WIDTH) others.push(`{${stepText(extra, at)}}`);
  return others.length === 0 ? '' : `,"with":[${others.join()}]`;
}

/** An empty trail; rows come in order, with the columns of `LINEAGE` as extra, once for each step of the row. */
export function rowTrail(split: SplitName, unit: Unit): RowTrail {
  const hash = createHash('sha256');
  // Many at a time: a buffer and a call for each row took as long as hashing the row.
  const hashes = Buffer.allocUnsafe(HASHES * 32);
  let held = 0;
  const hashed = () => {
    hash.update(hashes.subarray(0, held));
    held = 0;
    return hash;
  };
  const addHash = (sha256: string) => {
    held += hashes.write(sha256, held, 'hex');
    if (held === hashes.length) hashed();
  };
  // Written at once: as texts they would live until the batch ends, and be moved by the garbage collector until then.
  const lines = inTurns(Uint8Array, LINES);
  let written = Buffer.alloc(0);
  let end = 0;
  let rows = 0;
  return {
    split,
    add(sha256, extra) {
      addHash(sha256);
      const steps = unit === 'branch' ? withEarlier(extra) : extra;
      const replay = extra[REPLAY] ?? null;
      const more = `${replay === null ? '' : `,"replay":${text(replay)}`}${othersText(steps)}`;
      const line = `{"split":"${split}","row":${rows++},${stepText(steps, 0)}${more},"sha256":"${sha256}"}\n`;
      const room = lines.room(end + 3 * line.length);
      if (written.buffer !== room.buffer) written = Buffer.from(room.buffer);
      end += written.write(line, end);
    },
    addLine(line) {
      addHash(line.sha256);
      rows++;
    },
    count: () => rows,
    digest: () => hashed().copy().digest(),
    take: () => {
      const taken = Buffer.from(lines.turn().buffer, 0, end);
      end = 0;
      return taken;
    },
  };
}
