/** Appends events for ever and prints the ids of each batch once it is acknowledged. Arguments: address of the database or topic, a prefix. */
import { openKafka } from '../../../ingest/log/kafka.ts';
import { kafkaLog } from '../../../ingest/log/kafka-log.ts';
import { postgresLog } from '../../../ingest/log/postgres.ts';
import { accessOf } from '../../../proofs/kafka-clients.ts';
import { openPool } from '../../../store/db/pool.ts';
import { event } from './events.ts';

const [url, prefix] = process.argv.slice(2);
const kafka = /^kafka:(.+)\/([^/]+)$/.exec(url!);
const log = kafka
  ? kafkaLog(openKafka({ brokers: kafka[1]!, topic: kafka[2]!, ...accessOf(process.env) }), { partitions: 4 })
  : postgresLog(openPool(url!, { max: 4 }));

async function append(lane: number): Promise<void> {
  for (let n = 0; ; n++) {
    const batch = [0, 1, 2].map((i) =>
      event(
        'message.sent',
        { episode_id: `${prefix}-${lane}`, message_id: `${n}-${i}`, content: 'x'.repeat(200) },
        { id: `${prefix}-${lane}-${n}-${i}` },
      ),
    );
    const answers = await log.append(batch);
    if (answers.some((answer) => answer !== 'accepted')) throw new Error(answers.join());
    process.stdout.write(`${batch.map((one) => one.id).join(' ')}\n`);
  }
}

await Promise.all([0, 1, 2].map(append));
