/**
 * The seam between whoever brings facts and the log that keeps them. Two implementations keep the same promises, shown by one
 * contract suite: the embedded log in PostgreSQL, and Kafka.
 */
import type { Refusal } from '../../errors.ts';
import type { Event } from '../events/events.ts';

/**
 * What became of one event. `conflict`: the identity is known with another body; the first stays, this one is a dead letter. `erased`:
 * it is about something that was erased; it is refused, and its bytes are not kept. {@link PrunedKey}: what it is about lies in an archive.
 */
export type AppendResult = 'accepted' | 'duplicate' | 'conflict' | 'erased' | PrunedKey;

/** The folder of the archive that holds the events of this key. */
export type PrunedKey = { readonly pruned: string };

/** Why an event about something that was pruned is refused; its bytes are kept, so that it can be replayed after a restore. */
export const prunedRefusal = ({ pruned }: PrunedKey): Refusal => ({
  code: 'pruned',
  field: '',
  expected: `an event about something that is in the database; \`troupe prune restore ${pruned}\` brings this back`,
  got: `one about what was pruned into ${pruned}`,
});

/** Why an event about something erased is refused. */
export const ERASED_REFUSAL: Refusal = {
  code: 'erased',
  field: '',
  expected: 'an event about something that was not erased',
  got: 'one that was erased on request',
};

/** What the log holds of runs, for imports of other parts of them. */
export type Originals = {
  /** By episode, the sources of imports that began it. */
  readonly begun: (episodes: readonly string[]) => Promise<ReadonlyMap<string, readonly string[]>>;
  /** By episode, the SHA-256 of each original record that this source attached. */
  readonly records: (episodes: readonly string[], source: string) => Promise<ReadonlyMap<string, readonly string[]>>;
  /** By id of a response, the episodes that have it as a call. */
  readonly answered: (responses: readonly string[]) => Promise<ReadonlyMap<string, readonly string[]>>;
  /** The ids of events of these keys and this source that amendments reject. */
  readonly rejected: (keys: readonly string[], source: string) => Promise<ReadonlySet<string>>;
  /** Those of the ids that events of these keys and this source have. */
  readonly held: (keys: readonly string[], source: string, ids: readonly string[]) => Promise<ReadonlySet<string>>;
};

export type EventLog = {
  readonly name: string;
  /**
   * Answers only when every accepted event is durable, in the order given for each key. An identity (key, source, id) that the
   * log holds with the same body is a duplicate; with another body a conflict. Nothing is answered from memory. A log that cannot look
   * up what it holds answers `accepted` for all; duplicates and conflicts are then separated where the log is read.
   */
  readonly append: (events: readonly Event[]) => Promise<readonly AppendResult[]>;
  /** Why this log can never take an event that is valid otherwise, and null where it can. Absent where it takes every event. */
  readonly refuse?: (event: Event) => Refusal | null;
  /**
   * Compares a log outside the database with what is known of it, down to the records that were read last; from then on it takes nothing
   * while it is another one. @throws TroupeError `log_replaced`, `unreachable`
   */
  readonly verify?: () => Promise<void>;
  /** The partitions as they are now, where the log lies outside the database. @throws TroupeError `unreachable`, `log_replaced`, `log_repartitioned` */
  readonly partitions?: () => Promise<readonly LogPartition[]>;
  /** Kafka's `cleanup.policy` of the topic; null where the login may not read it. @throws TroupeError `unreachable` */
  readonly cleanup?: () => Promise<string | null>;
  readonly close: () => Promise<void>;
};

/** One partition of a log outside the database: the first offset it still has, and the one that it gives next. */
export type LogPartition = { readonly partition: number; readonly begin: number; readonly end: number };

/** A record that was refused: its raw bytes stay, with the place it came from and the reason. */
export type DeadLetter = {
  readonly place: string | null;
  readonly raw: Uint8Array;
  readonly refusal: Refusal;
};

/** The counts of one ingestion endpoint, kept so that received = acknowledged + duplicates + rejected can be checked at any time. */
export type IngestReport = {
  readonly endpoint: string;
  readonly received: number;
  readonly acknowledged: number;
  readonly duplicates: number;
  readonly rejected: readonly DeadLetter[];
};

/** Where ingestion endpoints report what they refused. */
export type IngestLedger = { readonly report: (report: IngestReport) => Promise<void> };

/** Bodies of artifacts, by content. `put` answers when the body is durable; putting the same body again is free. */
export type ArtifactStore = {
  readonly put: (
    bodies: readonly (string | Uint8Array)[],
  ) => Promise<readonly { readonly sha256: string; readonly size: number }[]>;
  readonly get: (sha256: string) => Promise<Uint8Array>;
  /** Removes a body, whoever names it; false where it was not there. */
  readonly remove: (sha256: string) => Promise<boolean>;
};
