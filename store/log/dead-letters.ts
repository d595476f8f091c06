/** Records that were refused: one of them with its bytes, and all of them tried again once what refused them has been put right. */

import { TroupeError } from '../../errors.ts';
import { readKept } from '../../ingest/log/kafka-record.ts';
import { type EventLog, prunedRefusal } from '../../ingest/log/log.ts';
import { sqlState } from '../db/faults.ts';
import type { Db } from '../db/pool.ts';
import { anyOf, countOf, firstOf, query, rowsOf } from '../db/query.ts';
import { lockAllPartitions } from '../projecting/partitions.ts';
import { projectAll } from '../projecting/projector.ts';
import { reprojectKeys } from '../projecting/reproject.ts';

export type Letter = {
  readonly dead_letter_id: number;
  readonly endpoint: string;
  /** File and line, item of a request, or log, partition and position. */
  readonly place: string | null;
  readonly code: string;
  readonly field: string;
  readonly expected: string;
  readonly got: string;
  readonly attempts: number;
  /** RFC 3339. */
  readonly first_at: string;
  readonly last_at: string;
  readonly replayed_at: string | null;
  readonly raw: Buffer;
};

const COLUMNS = [
  'dead_letter_id',
  'endpoint',
  'place',
  'code',
  'field',
  'expected',
  'got',
  'attempts',
  'first_at',
  'last_at',
  'replayed_at',
  'raw',
] as const;

/** @throws TroupeError `not_found` */
export async function letterOf(db: Db, id: number): Promise<Letter> {
  const letter = await firstOf(
    db,
    query.selectFrom('troupe.dead_letters').select(COLUMNS).where('dead_letter_id', '=', id),
  );
  if (letter) return letter;
  throw new TroupeError('not_found', `There is no dead letter ${id}.`, { hint: '`troupe deadletters` lists them.' });
}

export type Replay = {
  readonly tried: number;
  readonly replayed: readonly number[];
  /** Those that are still refused, with the reason of today. */
  readonly refused: readonly { readonly dead_letter_id: number; readonly code: string; readonly why: string }[];
};

export type ReplayOptions = {
  readonly log: EventLog;
  readonly now: () => Date;
  /** These letters, or without it all that were not replayed yet. */
  readonly ids?: readonly number[] | null;
  /** Only those refused for this reason. */
  readonly code?: string | null;
  /** Takes a native record as an import does; answers why it is still refused, or null. */
  readonly importRecord: (raw: Uint8Array) => Promise<string | null>;
};

/** Ingests the dead letters again, oldest first; one that is accepted is marked and never retried. */
export async function replay(
  db: Db,
  { log, now, ids = null, code = null, importRecord }: ReplayOptions,
): Promise<Replay> {
  const waiting = await rowsOf(
    db,
    query
      .selectFrom('troupe.dead_letters')
      .select('dead_letter_id as id')
      .$if(ids !== null, (letters) => letters.where('dead_letter_id', '=', anyOf(ids!, 'bigint')))
      .$if(code !== null, (letters) => letters.where('code', '=', code))
      .where('replayed_at', 'is', null)
      .where('code', '<>', 'erased')
      .orderBy('dead_letter_id'),
  );
  const replayed: number[] = [];
  const refused: Replay['refused'][number][] = [];
  for (const { id } of waiting) {
    const letter = await letterOf(db, id);
    const why = await retry(db, log, letter, importRecord);
    if (why === null) replayed.push(id);
    else refused.push({ dead_letter_id: id, ...why });
    const last_at = now().toISOString();
    await countOf(
      db,
      query
        .updateTable('troupe.dead_letters')
        .set({ replayed_at: why === null ? last_at : null, last_at })
        .where('dead_letter_id', '=', id),
    );
  }
  return { tried: waiting.length, replayed, refused };
}

type Why = { readonly code: string; readonly why: string } | null;

async function retry(db: Db, log: EventLog, letter: Letter, importRecord: ReplayOptions['importRecord']): Promise<Why> {
  const { event, refusal } = readKept(letter.raw);
  if (letter.endpoint === 'projector' && event) return applyAgain(db, event.key);
  if (event) {
    const [became] = await log.append([event]);
    if (became === 'accepted' || became === 'duplicate') return null;
    if (typeof became === 'object') return { code: 'pruned', why: prunedRefusal(became).expected };
    return { code: became === 'erased' ? 'erased' : 'id_conflict', why: `the log answered ${became}` };
  }
  if (letter.endpoint !== 'import')
    return { code: refusal.code, why: `${refusal.field} should be ${refusal.expected}` };
  const why = await importRecord(letter.raw);
  return why === null ? null : { code: letter.code, why };
}

/** The event is in the log; its key is projected anew, so that the tables are as if it had never failed. */
async function applyAgain(db: Db, key: string): Promise<Why> {
  await projectAll(db);
  try {
    await db.transaction(async (tx) => {
      await tx.query('set local search_path = facts, pg_catalog');
      await lockAllPartitions(tx);
      await reprojectKeys(tx, [key]);
    });
    return null;
  } catch (error) {
    if (!/^(?:22|23|54)/.test(sqlState(error) ?? '')) throw error;
    return { code: 'bad_shape', why: (error as Error).message };
  }
}
