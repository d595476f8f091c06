/** `troupe log create-topic`: it needs the brokers and no database. */
import { type Command, InvalidArgumentError } from 'commander';
import { loadConfig } from '../../config.ts';
import { EXIT, TroupeError } from '../../errors.ts';
import type { NewTopic } from '../../ingest/log/kafka.ts';
import { projectOf } from '../../store/db/database.ts';
import { type Flags, plainCommand, wholeNumber } from '../command.ts';
import { namedProject, serverOf } from '../database.ts';
import { kafkaAccess } from '../kafka-access.ts';
import { answer } from '../output.ts';

export function addTo(log: Command): void {
  plainCommand(
    log
      .command('create-topic')
      .description('make the topic of the project; one that is there is compared and left as it is')
      .option('--replication <n>', "copies of each partition; the broker's own number if left out", copies)
      .option('--set <name=value>', "a setting of the topic by Kafka's name; repeatable", oneSetting, {})
      .addHelpText(
        'after',
        '\nMade with kafka_partitions partitions and cleanup.policy=delete; needs the brokers and no database. Ends with 1 where a topic of\nthat name has another number of partitions or copies, or another value of a setting that is named here.\n\nExamples:\n  troupe log create-topic\n  KAFKA_PARTITIONS=32 troupe log create-topic --replication 3 --set min.insync.replicas=2 --set retention.ms=604800000',
      ),
    (_, flags) => created(flags),
  );
}

async function created(flags: Flags): Promise<number> {
  const config = loadConfig(flags, process.env);
  if (config.kafka_brokers === null)
    throw new TroupeError('usage', 'kafka_brokers is not set, so there is no broker to make a topic at.', {
      field: 'KAFKA_BROKERS',
    });
  const { kafkaError, makeTopic, openKafka, topicAsMade } = await import('../../ingest/log/kafka.ts');
  const topic = config.kafka_topic ?? projectOf({ ...serverOf(config), ...namedProject(config) });
  const wanted: NewTopic = {
    partitions: config.kafka_partitions,
    replication: (flags.replication as number | undefined) ?? null,
    settings: { 'cleanup.policy': 'delete', ...(flags.set as Record<string, string>) },
  };
  const admin = openKafka({ brokers: config.kafka_brokers, topic, ...kafkaAccess(config) }).admin();
  try {
    await admin.connect();
    const made = await makeTopic(admin, topic, wanted);
    const there = await topicAsMade(admin, topic, Object.keys(wanted.settings));
    // What was not asked for may be anything.
    const asked = config.origins.kafka_partitions === 'default' ? { ...wanted, partitions: there.partitions } : wanted;
    const other = made ? [] : differences(asked, there);
    if (other.length > 0)
      throw new TroupeError(
        'conflict',
        `Topic ${topic} is there already and has ${other.join(', ')}. Nothing was changed; alter it with Kafka's own tools, or ask for what it has.`,
      );
    const copies = there.replication === 1 ? '1 copy' : `${there.replication} copies`;
    answer(
      flags,
      { topic, created: made, ...there },
      `Topic ${topic} ${made ? 'was made' : 'is there already'}: ${there.partitions} partitions, ${copies} of each.`,
    );
    return EXIT.done;
  } catch (error) {
    throw kafkaError(error, topic);
  } finally {
    await admin.disconnect().catch(() => {});
  }
}

function differences(asked: NewTopic, there: NewTopic): string[] {
  const of = ({ partitions, replication, settings }: NewTopic): [string, unknown][] => [
    ['partitions', partitions],
    ['replication', replication ?? there.replication],
    ...Object.entries(settings),
  ];
  const has = new Map(of(there));
  return of(asked).flatMap(([name, value]) =>
    has.get(name) === value ? [] : [`${name} ${has.get(name) ?? 'unknown'} instead of ${value}`],
  );
}

function copies(text: string): number {
  const number = wholeNumber('replication')(text);
  if (number >= 1) return number;
  throw new InvalidArgumentError('--replication should be 1 or more.');
}

function oneSetting(text: string, others: Readonly<Record<string, string>>): Record<string, string> {
  const [, name, value] = /^([a-z][a-z.]*)=(.+)$/.exec(text) ?? [];
  if (name !== undefined && value !== undefined) return { ...others, [name]: value };
  throw new InvalidArgumentError('--set should be name=value, such as min.insync.replicas=2.');
}
