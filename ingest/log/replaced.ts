/** Whether a topic is still the log that was read, or another of the same name: a broker made anew, a topic deleted and made again. */
import { TroupeError } from '../../errors.ts';
import type { LogPartition } from './log.ts';

/** How far one partition was read, and the record that was read last. */
export type KnownPlace = {
  readonly partition: number;
  /** The offset that is read next. */
  readonly position: number;
  readonly last_offset: number | null;
  /** `recordDigest` of the record at `last_offset`. */
  readonly last_digest: string | null;
};

/** What is stored of a log. */
export type KnownLog = {
  readonly cluster: string | null;
  readonly partitions: number;
  readonly places: readonly KnownPlace[];
};

/** A topic as its brokers show it now; without partitions where there is none. */
export type TopicNow = { readonly cluster: string | null; readonly partitions: readonly LogPartition[] };

/** Why the topic cannot be the log that was read; null where nothing indicates it. What is known must have been read before `now` was. */
export function replacedBy(topic: string, known: KnownLog, now: TopicNow): TroupeError | null {
  if (now.partitions.length === 0) return replaced(topic, 'it is gone');
  if (known.cluster !== null && now.cluster !== null && known.cluster !== now.cluster)
    return replaced(topic, `it was read from cluster ${known.cluster}, and cluster ${now.cluster} answers now`);
  if (now.partitions.length < known.partitions)
    return replaced(topic, `it had ${known.partitions} partitions, and has ${now.partitions.length} now`);
  for (const { partition, position } of known.places) {
    const end = now.partitions.find((one) => one.partition === partition)?.end ?? 0;
    if (end < position)
      return replaced(topic, `partition ${partition} was read up to offset ${position}, and ends at ${end} now`);
  }
  return null;
}

/** The error for that reason. */
export const replaced = (topic: string, why: string): TroupeError =>
  new TroupeError(
    'log_replaced',
    `Topic ${topic} is not the log that was read: ${why}. Nothing is written to it and nothing is read from it. Point kafka_brokers and kafka_topic at the right one; if the old one is gone for good, \`troupe log adopt\` takes this one as a new log, and what was read stays.`,
    { got: why },
  );
