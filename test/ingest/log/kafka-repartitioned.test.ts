import { describe, expect, it } from 'vitest';
import { readiness } from '../../../api/health/readiness.ts';
import type { KafkaClient } from '../../../ingest/log/kafka.ts';
import { kafkaLog, type LogGuard } from '../../../ingest/log/kafka-log.ts';
import { readSchema } from '../../../migrations/migrate.ts';
import { freshDatabase } from '../../support/database.ts';

/** The answers of brokers whose topic has so many partitions, to a client that only looks. */
const topicOf = (partitions: () => number): KafkaClient =>
  ({
    topic: 'team',
    admin: () => ({
      connect: async () => {},
      disconnect: async () => {},
      describeCluster: async () => ({ clusterId: 'c' }),
      listTopics: async () => ['team'],
      fetchTopicOffsets: async () =>
        Array.from({ length: partitions() }, (_, partition) => ({ partition, low: '0', high: '0' })),
    }),
  }) as unknown as KafkaClient;
const read: LogGuard = {
  known: async () => ({ cluster: 'c', partitions: 4, places: [] }),
  compare: async () => {},
};

describe('a topic whose partitions were changed', () => {
  it('is said by whoever looks at it, until the change is accepted or undone', async () => {
    let partitions = 4;
    const log = kafkaLog(
      topicOf(() => partitions),
      { partitions: 4, guard: read },
    );
    const accepting = kafkaLog(
      topicOf(() => partitions),
      { partitions: 6, accepts: 6, guard: read },
    );
    expect(await log.partitions!()).toHaveLength(4);
    partitions = 6;
    await expect(log.partitions!()).rejects.toMatchObject({
      code: 'log_repartitioned',
      message: expect.stringMatching(/had 4 partitions and has 6 now.*Set kafka_partitions to 6/),
    });
    expect(await accepting.partitions!()).toHaveLength(6);
    partitions = 4;
    expect(await log.partitions!()).toHaveLength(4);
    await Promise.all([log.close?.(), accepting.close?.()]);
  });

  it('makes a server not ready, which names the state and what to do', async () => {
    const fresh = await freshDatabase();
    const log = kafkaLog(
      topicOf(() => 6),
      { partitions: 4, guard: read },
    );
    expect(await readiness({ db: fresh.db, log, known: readSchema(), ingestOnly: false })).toMatchObject({
      status: 'not_ready',
      log: 'repartitioned',
      reasons: [expect.stringContaining('Set kafka_partitions to 6')],
    });
    await log.close?.();
    await fresh.close();
  });
});
