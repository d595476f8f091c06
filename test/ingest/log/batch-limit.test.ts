/** Compressed batches as the client of Kafka reads them, written by the client itself or by hand. */
import { createRequire } from 'node:module';
import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { fetchLimits, INFLATERS, inflatedBatch, MOST_BYTES, MOST_FETCHED } from '../../../ingest/log/batch-limit.ts';
import '../../../ingest/log/kafka.ts';
import { type LogRecord, readRecord } from '../../../ingest/log/kafka-record.ts';
import { toLz4 } from '../../../ingest/log/lz4.ts';

const require = createRequire(import.meta.url);
const Decoder = require('kafkajs/src/protocol/decoder.js');
const Encoder = require('kafkajs/src/protocol/encoder.js');
const decodeMessages = require('kafkajs/src/protocol/requests/fetch/v4/decodeMessages.js');
const decodeBatch = require('kafkajs/src/protocol/recordBatch/v0/decoder.js');
const encodeRecord = require('kafkajs/src/protocol/recordBatch/record/v0/index.js');

type Read = LogRecord & { readonly offset: unknown };

/** A batch as a broker sends it, behind other bytes of the fetch. */
const batchOf = (...batch: Parameters<typeof bytesOf>) => new Decoder(bytesOf(...batch));

function bytesOf(type: number, compressed: Uint8Array, { records, first = 7 }: { records: number; first?: number }) {
  const body = Buffer.alloc(49 + compressed.length);
  body[4] = 2;
  body.writeInt16BE(type, 9);
  body.writeInt32BE(records - 1, 11);
  body.writeInt32BE(records, 45);
  body.set(compressed, 49);
  const head = Buffer.alloc(12);
  head.writeBigInt64BE(BigInt(first));
  head.writeInt32BE(body.length, 8);
  return Buffer.concat([head, body]);
}

const recordsOf = (values: readonly Buffer[]): Buffer => {
  const encoder = new Encoder();
  for (const [i, value] of values.entries())
    encoder.writeEncoder(encodeRecord({ offsetDelta: i, timestampDelta: 0, key: null, value }));
  return encoder.buffer;
};

/** Zstandard (RFC 8878): one frame of blocks that repeat one byte 128 KiB times. */
function zstdOfZeros(bytes: number): Buffer {
  const size = 128 * 1024;
  const blocks = Math.ceil(bytes / size);
  const block = (last: boolean) => {
    const head = Buffer.alloc(4);
    head.writeUIntLE((size << 3) | (1 << 1) | (last ? 1 : 0), 0, 3);
    return head;
  };
  return Buffer.concat([
    Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0, 0x50]),
    ...Array.from({ length: blocks }, (_, i) => block(i === blocks - 1)),
  ]);
}

describe('a compressed batch', () => {
  it('is read as it was written', async () => {
    const values = ['{"a":1}', '{"b":2}'].map((text) => Buffer.from(text));
    for (const [type, write] of [[1, gzipSync] as const, [3, toLz4] as const]) {
      const { records } = await decodeBatch(batchOf(type, write(recordsOf(values)), { records: 2 }));
      expect(records.map(({ offset, value }: Read) => [offset, String(value)])).toEqual([
        ['7', '{"a":1}'],
        ['8', '{"b":2}'],
      ]);
    }
  });

  it.each([
    ['gzip', 1, () => gzipSync(Buffer.alloc(MOST_BYTES + 1))],
    ['Zstandard', 4, () => zstdOfZeros(MOST_BYTES + 1)],
  ])(
    'of %s that inflates beyond the limit gives each of its records as one refused with the reason',
    async (_, type, bomb) => {
      const { records } = await decodeBatch(batchOf(type, bomb(), { records: 200 }));
      expect(records.map(({ offset }: Read) => offset)).toEqual(Array.from({ length: 200 }, (_, i) => String(7 + i)));
      expect(readRecord(records[199]).refusal).toMatchObject({
        code: 'too_large',
        got: 'more, in a batch of 200 records',
      });
    },
  );

  it.each([1, 2, 3, 4] as const)('of type %i holds no more than it may', async (type) => {
    const written = {
      1: gzipSync(Buffer.alloc(2000)),
      2: Buffer.from([
        208,
        15,
        ...Array(31)
          .fill([(63 << 2) | 2, 1, 0])
          .flat(),
      ]),
      3: Buffer.from(toLz4(Buffer.alloc(2000))),
      4: zstdOfZeros(2000),
    }[type];
    await expect((async () => INFLATERS[type](written, 1999))()).rejects.toMatchObject({ code: 'too_large' });
  });

  it('of more records than the client could hold is not begun', async () => {
    await expect(decodeBatch(batchOf(1, gzipSync('x'), { records: 2 ** 30 }))).rejects.toThrow(
      'A batch of 1073741824 records is not read',
    );
  });

  it('that is damaged fails as before', async () => {
    await expect(inflatedBatch(Buffer.from('no gzip'), INFLATERS[1])).rejects.toThrow('incorrect header check');
  });
});

describe('a fetch', () => {
  const large = (first: number, bytes = 4 * 1024 * 1024) =>
    bytesOf(1, gzipSync(recordsOf([Buffer.alloc(bytes, 'a')])), { records: 1, first });
  const small = (first: number) => bytesOf(1, gzipSync(recordsOf([Buffer.from('b')])), { records: 1, first });

  /** A broker that answers with what each partition holds from its offset on, and a reader that fetches until nothing is left. */
  async function read(partitions: readonly (readonly Buffer[])[]) {
    const limits = fetchLimits();
    const offsets = partitions.map(() => 0);
    const fetches: { readonly bytes: number; readonly of: number[] }[] = [];
    while (offsets.some((offset, i) => offset < partitions[i]!.length)) {
      const left = partitions.flatMap((batches, i) =>
        offsets[i]! < batches.length ? [{ i, set: Buffer.concat(batches.slice(offsets[i])) }] : [],
      );
      // The number of the partition and the length of its set stand before each.
      const head = ({ i, set }: (typeof left)[number]) => {
        const bytes = Buffer.alloc(8);
        bytes.writeInt32BE(i);
        bytes.writeInt32BE(set.length, 4);
        return [bytes, set];
      };
      const answer = new Decoder(Buffer.concat(left.flatMap(head)));
      limits.begin('1');
      let bytes = 0;
      const of: number[] = [];
      for (const _ of left) {
        const partition = answer.readInt32() as number;
        const records = (await decodeMessages(answer)) as { offset: string; value: Buffer }[];
        for (const { offset, value } of records) {
          expect(Number(offset)).toBe(offsets[partition]!);
          offsets[partition]!++;
          bytes += value.length;
          of.push(partition);
        }
      }
      fetches.push({ bytes, of });
      expect(fetches.length).toBeLessThan(60);
    }
    return fetches;
  }

  it('of many small batches that inflate to much holds a few of them, and the next ones the others', async () => {
    const fetches = await read([Array.from({ length: 12 }, (_, i) => large(i))]);
    expect(Math.max(...fetches.map(({ bytes }) => bytes))).toBeLessThanOrEqual(MOST_FETCHED);
    expect(fetches.length).toBeGreaterThan(3);
  });

  it('gives each partition its turn, so that a small record waits for no more than what one fetch holds', async () => {
    const fetches = await read([
      Array.from({ length: 9 }, (_, i) => large(i)),
      Array.from({ length: 9 }, (_, i) => large(i)),
      [small(0)],
    ]);
    const turn = (partition: number) => fetches.findIndex(({ of }) => of.includes(partition));
    expect([turn(0), turn(1)]).toEqual([0, 1]);
    expect(turn(2)).toBeLessThanOrEqual(2);
  });

  it('holds its first batch whole, however large that is', async () => {
    const fetches = await read([[small(0), large(1, 2 * MOST_FETCHED), small(2)]]);
    expect(fetches.map(({ of }) => of.length)).toContain(1);
    expect(fetches.flatMap(({ of }) => of)).toHaveLength(3);
  });
});
