/** Where a key goes, in the embedded log and in a topic. */
import fc from 'fast-check';
import { Partitioners } from 'kafkajs';
import { expect, it } from 'vitest';
import { kafkaPartitionOf, murmur2 } from '../../ingest/log/partition.ts';

it('murmur2 is that of the Java client, on the values of its own tests', () => {
  const known = {
    '21': -973932308,
    foobar: -790332482,
    'a-little-bit-long-string': -985981536,
    'a-little-bit-longer-string': -1486304829,
    abc: 479470107,
  };
  for (const [text, hash] of Object.entries(known)) expect(murmur2(Buffer.from(text)), text).toBe(hash);
});

it('a key goes where our producer sends it, whatever its bytes', () => {
  const choose = Partitioners.DefaultPartitioner();
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', minLength: 1 }), fc.integer({ min: 1, max: 64 }), (key, partitions) => {
      const partitionMetadata = Array.from({ length: partitions }, (_, partitionId) => ({ partitionId, leader: 0 }));
      const sent = choose({ topic: 't', partitionMetadata, message: { key: Buffer.from(key), value: null } } as never);
      expect(kafkaPartitionOf(key, partitions)).toBe(sent);
    }),
  );
});
