/** A log outside the database as its reader sees it: what is archived, and the callbacks of the reader. */
import type { LogRecord } from './kafka-record.ts';
import type { LogPartition } from './log.ts';

/** What was read of one partition: every record that it holds from offset `from` up to, but without, `next`. */
export type Reading = {
  readonly partition: number;
  readonly from: number;
  readonly next: number;
  /** Where the partition ended when it was read. */
  readonly end: number;
  readonly records: readonly LogRecord[];
};

export type Reader = {
  readonly signal: AbortSignal;
  /** True: read every partition, whoever else reads; false: share them with all who read so. */
  readonly alone: boolean;
  /** Called with the partitions it has now; returns the offset at which each is to be read. */
  readonly assigned: (partitions: readonly number[]) => Promise<ReadonlyMap<number, number>>;
  /**
   * Takes what was read, a reading for each partition, and resolves once it is applied: with the partitions that are to be read from
   * elsewhere. Resolves with null when it gave up, since others read now: `lost` reported it.
   */
  readonly take: (readings: readonly Reading[], lost: () => boolean) => Promise<ReadonlyMap<number, number> | null>;
  /** Called when the log could not be read, which is retried. */
  readonly onTrouble: (error: unknown) => void;
};

export type LogSource = {
  /** Under this name positions are kept: `kafka:<topic>`. */
  readonly name: string;
  /** The number of partitions that is accepted where it is another than before, null where none is. */
  readonly accepts: number | null;
  /** @throws TroupeError `unreachable`, and `not_found` where the topic is gone. */
  readonly facts: () => Promise<{ readonly cluster: string | null; readonly partitions: readonly LogPartition[] }>;
  /** Makes the topic with so many partitions, where there is none. @throws TroupeError `unreachable` */
  readonly make: (partitions: number) => Promise<void>;
  /** Reads until the signal. What `assigned` and `take` throw ends it and is thrown; what the log itself fails at is tried again. */
  readonly read: (reader: Reader) => Promise<void>;
  readonly close: () => Promise<void>;
};
