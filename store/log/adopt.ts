/**
 * A topic that took the place of the one that was read, taken as a new log: deleted and made anew, an empty broker of the same name,
 * or one that lost records before they were read. What is archived stays where it lies; the new log is read from its beginning.
 */
import { TroupeError } from '../../errors.ts';
import { type KnownLog, replacedBy, type TopicNow } from '../../ingest/log/replaced.ts';
import type { LogSource } from '../../ingest/log/source.ts';
import type { Patiently } from '../db/patience.ts';
import type { Db } from '../db/pool.ts';
import { countOf, query, scalarOf, sql } from '../db/query.ts';
import { addLog, lockLogs, placePartitions, topicNow } from './incarnations.ts';
import { compareLast, type Incarnation, knownLog, topicOf } from './known-log.ts';

const COMPARE_MS = 20_000;

/** What would be adopted. */
export type Adoptable = {
  readonly known: KnownLog & Incarnation;
  readonly now: TopicNow;
  /** Why the topic is not the log that was read; null where it is. */
  readonly why: string | null;
};

/**
 * Compares the topic with what was read of it, down to the records that were read last.
 * @throws TroupeError `unreachable`, and `not_found` for a topic that was never read.
 */
export async function lookToAdopt(db: Db, source: LogSource): Promise<Adoptable> {
  const known = await knownLog(db, source.name);
  if (known === null)
    throw new TroupeError(
      'not_found',
      `Topic ${topicOf(source.name)} was never read, so none took its place. \`troupe log\` lists the logs of the project.`,
    );
  const now = await topicNow(source);
  return { known, now, why: await whyAnother(source, known, now) };
}

async function whyAnother(source: LogSource, known: KnownLog & Incarnation, now: TopicNow): Promise<string | null> {
  const replaced = replacedBy(topicOf(source.name), known, now);
  if (replaced !== null) return replaced.detail.got!;
  for (const { partition, begin } of now.partitions) {
    const position = known.places.find((one) => one.partition === partition)?.position ?? begin;
    if (begin > position) return `partition ${partition} was read up to offset ${position}, and begins at ${begin} now`;
  }
  try {
    if (await compareLast(source, known, now, AbortSignal.timeout(COMPARE_MS))) return null;
  } catch (error) {
    if (error instanceof TroupeError && error.code === 'log_replaced') return error.detail.got!;
    throw error;
  }
  throw new TroupeError(
    'unreachable',
    `The records of topic ${topicOf(source.name)} that were read last could not be read again within ${COMPARE_MS / 1000} s. Run the command again.`,
  );
}

/**
 * Takes what answers now as the next incarnation of this log, to be read from the beginning of its partitions; a topic that is missing
 * is made. Returns its label.
 * @throws TroupeError `conflict` where another process adopted it meanwhile, `unreachable`
 */
export async function adopt(
  db: Db,
  source: LogSource,
  {
    known,
    partitions,
    patiently = (work) => work(),
  }: { readonly known: Incarnation; readonly partitions: number; readonly patiently?: Patiently },
): Promise<string> {
  // One that was just made has no leaders for a moment.
  const now = await patiently(async () => {
    await source.make(partitions);
    return source.facts();
  });
  return db.transaction(async (tx) => {
    await lockLogs(tx);
    const newest = (await knownLog(tx, source.name))!;
    if (newest.log !== known.log)
      throw new TroupeError('conflict', `The topic was adopted as ${newest.label} meanwhile; nothing was changed.`);
    await countOf(
      tx,
      query
        .updateTable('troupe.logs')
        .set({ replaced_at: sql<string>`clock_timestamp()` })
        .where('log', '=', known.log),
    );
    const log = await addLog(tx, source.name, now);
    await placePartitions(tx, log, now.partitions);
    return scalarOf(tx, sql<string>`(select label from troupe.logs where log = ${log})`);
  });
}
