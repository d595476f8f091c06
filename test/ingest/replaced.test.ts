import fc from 'fast-check';
import { expect, it } from 'vitest';
import { type KnownLog, replacedBy, type TopicNow } from '../../ingest/log/replaced.ts';

const known: KnownLog = {
  cluster: 'a',
  partitions: 2,
  places: [
    { partition: 0, position: 5, last_offset: 4, last_digest: 'x' },
    { partition: 1, position: 0, last_offset: null, last_digest: null },
  ],
};
const now = (ends: readonly number[], cluster: string | null = 'a'): TopicNow => ({
  cluster,
  partitions: ends.map((end, partition) => ({ partition, begin: 0, end })),
});

it.each([
  ['an empty topic', now([0, 0]), /partition 0 was read up to offset 5, and ends at 0/],
  ['no topic', now([]), /it is gone/],
  ['another cluster', now([9, 9], 'b'), /cluster a, and cluster b/],
  ['fewer partitions', now([9]), /had 2 partitions, and has 1/],
])('%s is not the log that was read', (_, topic, why) => {
  expect(replacedBy('t', known, topic)).toMatchObject({ code: 'log_replaced', message: expect.stringMatching(why) });
});

it('a topic that only grew is the same, whatever retention took from its beginning', () => {
  fc.assert(
    fc.property(fc.nat(100), fc.nat(100), fc.nat(3), fc.constantFrom('a', null), (first, second, more, cluster) => {
      const ends = [5 + first, second, ...Array.from({ length: more }, () => 0)];
      const { partitions } = now(ends, cluster);
      const cut = partitions.map((one) => ({ ...one, begin: one.end }));
      expect(replacedBy('t', known, { cluster, partitions: cut })).toBeNull();
    }),
  );
});
