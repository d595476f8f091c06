/** Kafka keeps the contract of the embedded log. `npm run proofs -- kafka-log` starts a broker and runs this against it. */
import { randomBytes } from 'node:crypto';
import { openKafka } from '../../ingest/log/kafka.ts';
import { kafkaLog } from '../../ingest/log/kafka-log.ts';
import { kafkaSource } from '../../ingest/log/kafka-source.ts';
import { kafkaPartitionOf } from '../../ingest/log/partition.ts';
import { accessOf } from '../../proofs/kafka-clients.ts';
import { bringIn } from '../../store/log/follow.ts';
import { freshDatabase } from '../support/database.ts';
import { archived, logContract } from './support/log-contract.ts';

const brokers = process.env.TROUPE_PROOF_BROKERS;
if (brokers === undefined) throw new Error('npm run proofs -- kafka-log starts a broker and runs this.');

const PARTITIONS = 4;

logContract('Kafka', async () => {
  const fresh = await freshDatabase();
  const topic = `contract-${randomBytes(6).toString('hex')}`;
  const client = openKafka({ brokers, topic, ...accessOf(process.env) });
  const log = kafkaLog(client, { partitions: PARTITIONS });
  const source = kafkaSource(client, { group: topic });
  return {
    log,
    answersDuplicates: false,
    home: (key) => kafkaPartitionOf(key, PARTITIONS),
    address: `kafka:${brokers}/${topic}`,
    kept: async () => {
      await bringIn(fresh.db, source);
      return archived(fresh.db);
    },
    close: async () => {
      await log.close();
      await source.close();
      await fresh.close();
    },
  };
});
