/** The wrapper of Parquet: an Arrow table in, a file with compressed row groups out, and back. The bytes depend on the table alone. */
import { Compression, readParquet, Table, WriterPropertiesBuilder, writeParquet } from 'parquet-wasm';

/** Readers split work by row group, so a file has several. */
const ROW_GROUP = 65_536;

const CODECS = { zstd: Compression.ZSTD, snappy: Compression.SNAPPY } as const;

/**
 * @param stream a table in the streaming form of Arrow IPC
 * @param options.codec `zstd` (default) is a third smaller; `snappy` is for readers that know no other
 */
export function parquetOf(stream: Uint8Array, options: { readonly codec?: keyof typeof CODECS } = {}): Uint8Array {
  const properties = new WriterPropertiesBuilder()
    .setCompression(CODECS[options.codec ?? 'zstd'])
    .setMaxRowGroupSize(ROW_GROUP)
    .setCreatedBy('troupe')
    .build();
  return writeParquet(Table.fromIPCStream(stream), properties);
}

/** What a Parquet file holds, in the streaming form of Arrow IPC. Throws what the library throws for bytes that are none; check their hash first. */
export const arrowIn = (parquet: Uint8Array): Uint8Array => readParquet(parquet).intoIPCStream();
