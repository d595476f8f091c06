/** The wrapper of Parquet: Arrow in, a file with compressed row groups out, and back. The bytes depend on the rows and how they come in batches. */
import {
  Compression,
  type RecordBatch,
  readParquet,
  Table,
  transformParquetStream,
  WriterPropertiesBuilder,
  writeParquet,
} from 'parquet-wasm';

/** Readers split work by row group, and the writer holds one, compressed. */
const ROW_GROUP = 65_536;

/** Texts that repeat in a row group are stored once, in its dictionary, up to so many bytes of them; the default is 1 MiB. */
const DICTIONARY = 16 * 1024 * 1024;

const CODECS = { zstd: Compression.ZSTD, snappy: Compression.SNAPPY } as const;

/**
 * The bytes of a Parquet file, in order. Memory holds a few batches and a row group.
 * @param streams at least one, each in the streaming form of Arrow IPC; all of one schema
 * @param options.codec `zstd` (default) is a third smaller; `snappy` is for readers that know no other
 */
export async function* parquetOf(
  streams: Iterable<Uint8Array>,
  options: { readonly codec?: keyof typeof CODECS } = {},
): AsyncGenerator<Uint8Array, void, undefined> {
  const properties = new WriterPropertiesBuilder()
    .setCompression(CODECS[options.codec ?? 'zstd'])
    .setMaxRowGroupSize(ROW_GROUP)
    .setDictionaryPageSizeLimit(DICTIONARY)
    .setCreatedBy('troupe')
    .build();
  const batches = batchesOf(streams);
  let failure: unknown = null;
  let next = batches.next();
  if (next.done) return yield writeParquet(Table.fromIPCStream(next.value), properties);
  const source = new ReadableStream<RecordBatch>(
    {
      pull(controller) {
        try {
          if (next.done) return controller.close();
          controller.enqueue(next.value);
          next = batches.next();
        } catch (error) {
          failure ??= error;
          throw error;
        }
      },
    },
    { highWaterMark: 0 },
  );
  try {
    yield* (await transformParquetStream(source, properties)) as AsyncIterable<Uint8Array>;
  } catch (error) {
    // The library names no reason.
    throw failure ?? error;
  }
}

/** The memory of the library is not collected: what was handed on is freed by hand. Ends with the last stream, for its schema. */
function* batchesOf(streams: Iterable<Uint8Array>): Generator<RecordBatch, Uint8Array, undefined> {
  let last: Uint8Array = new Uint8Array(0);
  for (const stream of streams) {
    last = stream;
    const table = Table.fromIPCStream(stream);
    try {
      yield* table.recordBatches();
    } finally {
      table.free();
    }
  }
  return last;
}

/** What a Parquet file holds, in the streaming form of Arrow IPC. Throws what the library throws for bytes that are none; check their hash first. */
export const arrowIn = (parquet: Uint8Array): Uint8Array => readParquet(parquet).intoIPCStream();
