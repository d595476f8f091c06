/**
 * Compressed batches of Kafka, inflated up to a limit: 1 MiB of gzip may hold 1 GiB, of Zstandard 32 GiB. The brokers have acknowledged the
 * records of a batch that holds more, so each of them is read all the same, as a record that says why its value is not there.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { promisify } from 'node:util';
import { unzip } from 'node:zlib';
import { TroupeError } from '../../errors.ts';
import { fromLz4 } from './lz4.ts';
import { unsnappy } from './snappy.ts';
import { unzstdEach } from './zstd.ts';

/** Bytes that a batch may hold: four of the largest records. */
export const MOST_BYTES = 128 * 1024 * 1024;
/** Bytes that the batches of a fetch may hold together, its first one aside. What it leaves is fetched again, with what came meanwhile. */
export const MOST_FETCHED = 16 * 1024 * 1024;
/** Records that a batch may hold. The client makes an object of some hundred bytes of each before anybody sees one. */
const MOST_RECORDS = 500_000;

/** Header of a record that was not read, with the reason. */
export const UNREAD = 'troupe_unread';
export const UNREAD_EXPECTED = `a batch of at most ${MOST_BYTES} bytes when it is inflated; send these records again in smaller batches`;

type Inflate = (bytes: Buffer, most: number) => Uint8Array | Promise<Uint8Array>;

const tooLarge = (most: number, cause?: unknown) =>
  new TroupeError('too_large', `The batch holds more than ${most} bytes when it is inflated.`, { cause });

const isTooLarge = (error: unknown): boolean => error instanceof TroupeError && error.code === 'too_large';

/** By the numbers of Kafka's protocol. Each throws TroupeError `too_large` for more than `most` bytes. */
export const INFLATERS: Readonly<Record<1 | 2 | 3 | 4, Inflate>> = {
  1: (bytes, most) =>
    promisify(unzip)(bytes, { maxOutputLength: most }).catch((error: NodeJS.ErrnoException) => {
      throw error.code === 'ERR_BUFFER_TOO_LARGE' ? tooLarge(most, error) : error;
    }),
  2: unsnappy,
  3: fromLz4,
  4: async (bytes, most) => {
    const pieces: Buffer[] = [];
    let held = 0;
    for await (const piece of unzstdEach([bytes])) {
      held += piece.length;
      if (held > most) throw tooLarge(most);
      pieces.push(piece);
    }
    return Buffer.concat(pieces);
  },
};

/** What was inflated of one fetch. Its batches come partition by partition, always in the same order. */
type Fetch = {
  held: number;
  /** The number of the partition whose batches are inflated now, and of the last of which any were. */
  partition: number;
  served: number;
  /** Where the last batch ended: the next of the same partition begins there. */
  end: number;
  /** The first partition that has its turn, and where the next fetch begins. */
  readonly from: number;
  next: number | null;
};

const FETCHING = new AsyncLocalStorage<Fetch>();

/**
 * Bounds what is inflated of each fetch of a consumer: the client inflates all batches of a fetch before anybody sees one, and a fetch of
 * 1 MiB of Zstandard may hold hundreds of batches. Partitions take turns, so that one whose batches fill a fetch does not keep the others out.
 */
export function fetchLimits(): { readonly begin: (node: string) => void } {
  const last = new Map<string, Fetch>();
  return {
    /** To be called where a fetch from this broker begins: it counts what is inflated on the way from there. */
    begin: (node) => {
      const from = last.get(node)?.next ?? 0;
      const fetch: Fetch = { held: 0, partition: -1, served: -1, end: -1, from, next: null };
      last.set(node, fetch);
      FETCHING.enterWith(fetch);
    },
  };
}

/** By this name the client takes a batch, and those behind it in its partition, as not having come whole, and fetches them again. */
class LeftForLater extends Error {
  override readonly name = 'KafkaJSPartialMessageError';
}

/** As {@link inflatedBatch}, within what the fetch that is under way may still hold. @throws LeftForLater for what it may not */
export async function inflatedInFetch(bytes: Buffer, inflate: Inflate, most = MOST_BYTES): Promise<Buffer> {
  const fetch = FETCHING.getStore();
  if (fetch === undefined) return inflatedBatch(bytes, inflate, most);
  if (bytes.byteOffset - HEAD_BYTES !== fetch.end) fetch.partition++;
  fetch.end = bytes.byteOffset + bytes.length;
  const { partition, held } = fetch;
  const left = held === 0 ? most : Math.min(most, MOST_FETCHED - held);
  const later = (): LeftForLater => {
    fetch.next ??= fetch.served === partition ? partition + 1 : partition;
    return new LeftForLater('The fetch holds enough.');
  };
  if (partition < fetch.from) throw new LeftForLater('It is the turn of others.');
  if (left <= 0 || (held > 0 && (headOf(bytes)?.records ?? 0) > MOST_RECORDS)) throw later();
  let inflated: Buffer;
  try {
    inflated = held === 0 ? await inflatedBatch(bytes, inflate, most) : Buffer.from(await inflate(bytes, left));
  } catch (error) {
    throw held > 0 && isTooLarge(error) ? later() : error;
  }
  fetch.held += Math.max(1, inflated.length);
  fetch.served = partition;
  return inflated;
}

/**
 * The records of a batch, or where they are too large records of the same number that say so.
 * @throws TroupeError `too_large` for more than {@link MOST_RECORDS} records, and what `inflate` throws for damaged bytes
 */
export async function inflatedBatch(bytes: Buffer, inflate: Inflate, most = MOST_BYTES): Promise<Buffer> {
  const head = headOf(bytes);
  if (head !== null && head.records > MOST_RECORDS)
    throw new TroupeError('too_large', `A batch of ${head.records} records is not read: the most are ${MOST_RECORDS}.`);
  try {
    return Buffer.from(await inflate(bytes, most));
  } catch (error) {
    if (head === null || !isTooLarge(error)) throw error;
    return unreadRecords(head, `more, in a batch of ${head.records} records`);
  }
}

type Head = { readonly records: number; readonly lastOffsetDelta: number };

/** Bytes of a batch before its records (KIP-98, record batch of version 2), and those before the ones that its length counts. */
const [HEAD_BYTES, UNCOUNTED_BYTES] = [61, 12];

/** What the client has read before: it hands on the records as a part of the whole batch. Null where they are not in such a batch. */
function headOf(records: Buffer): Head | null {
  if (records.byteOffset < HEAD_BYTES) return null;
  const head = Buffer.from(records.buffer, records.byteOffset - HEAD_BYTES, HEAD_BYTES);
  const isBatch = head[16] === 2 && head.readInt32BE(8) === HEAD_BYTES - UNCOUNTED_BYTES + records.length;
  return isBatch ? { records: head.readInt32BE(57), lastOffsetDelta: head.readInt32BE(23) } : null;
}

function unreadRecords({ records, lastOffsetDelta }: Head, reason: string): Buffer {
  const text = (written: string) => [...varInt(written.length), ...Buffer.from(written)];
  // No key, no value, one header.
  const rest = [...varInt(-1), ...varInt(-1), ...varInt(1), ...text(UNREAD), ...text(reason)];
  const written = Array.from({ length: records }, (_, i) => {
    const body = [0, ...varInt(0), ...varInt(i === records - 1 ? lastOffsetDelta : i), ...rest];
    return Buffer.from([...varInt(body.length), ...body]);
  });
  return Buffer.concat(written);
}

/** A number below 2^30 as Kafka writes it: the sign in the lowest bit, seven bits a byte, the lowest first. */
function varInt(value: number): number[] {
  const bytes: number[] = [];
  let rest = value < 0 ? -2 * value - 1 : 2 * value;
  for (; rest > 127; rest >>>= 7) bytes.push((rest & 127) | 128);
  return [...bytes, rest];
}
