/** The logs that the events of a project lie in: listing them, making a topic, and taking one that replaced the one that was read as a new one. */
import { type Command, InvalidArgumentError } from 'commander';
import { loadConfig } from '../../config.ts';
import { EXIT, TroupeError } from '../../errors.ts';
import type { NewTopic } from '../../ingest/log/kafka.ts';
import { projectOf } from '../../store/db/database.ts';
import { adopt, lookToAdopt } from '../../store/log/adopt.ts';
import { listLogs } from '../../store/log/incarnations.ts';
import { agreed } from '../agreed.ts';
import { databaseCommand, type Flags, plainCommand, projectCommand, wholeNumber } from '../command.ts';
import type { Context } from '../context.ts';
import { namedProject, serverOf } from '../database.ts';
import { kafkaAccess } from '../kafka-access.ts';
import { answer, say, table } from '../output.ts';

export function addTo(program: Command): void {
  const log = program
    .command('log')
    .addHelpText(
      'after',
      '\nExamples:\n  troupe log\n  troupe log create-topic --replication 3 --set min.insync.replicas=2\n  troupe log adopt --yes',
    );

  databaseCommand(
    log
      .command('list', { isDefault: true })
      .description('list the logs that hold events of the project')
      .addHelpText(
        'after',
        '\nread: how many offsets of the topic were read; "–" for the log in the database. #1 after a name: it took the place of the first.\n\nExamples:\n  troupe log list\n  troupe log list --json',
      ),
    async ({ db }, _, flags) => {
      const logs = await listLogs(db);
      answer(flags, { logs }, () =>
        table(
          ['log', 'cluster', 'partitions', 'read', 'first read', 'replaced'],
          logs.map((one) => [one.log, one.cluster, one.partitions, one.read, one.first_read, one.replaced_at]),
        ),
      );
    },
  );

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

  projectCommand(
    log
      .command('adopt')
      .description('adopt a topic that replaced the one read so far as a new log, from its beginning')
      .option('--yes', 'do not ask for confirmation')
      .addHelpText(
        'after',
        '\nFor error log_replaced where the old topic is gone for good, and for log_truncated. What was read stays in the tables. What the\nold topic held and nobody had read is lost: send it again. A topic that is missing is made with kafka_partitions partitions.\nIngest takes events again within seconds; a projector that ended is started again by you, or by `troupe up`.\n\nExamples:\n  troupe log adopt\n  troupe log adopt --yes --json',
      ),
    (context, _, flags) => adopted(context, flags),
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

async function adopted({ db, source, config, patiently }: Context, flags: Flags): Promise<number> {
  if (source === null)
    throw new TroupeError(
      'usage',
      'The log of this project lies in its database: kafka_brokers is not set, so no topic can be adopted.',
    );
  const { known, now, why } = await patiently(() => lookToAdopt(db, source));
  const clusterNow = now.cluster ?? 'unknown';
  if (why === null) {
    answer(
      flags,
      { adopted: false, log: known.label, cluster: now.cluster },
      `${known.label} in cluster ${clusterNow} is the log that was read: there is nothing to adopt.`,
    );
    return EXIT.done;
  }
  const records = now.partitions.reduce((sum, { begin, end }) => sum + end - begin, 0);
  const found =
    now.partitions.length === 0
      ? `There is no such topic now; it is made with ${config.kafka_partitions} partitions`
      : `Now it has ${now.partitions.length} partitions with ${records} offsets, in cluster ${clusterNow}`;
  say(`${known.label} is not the log that was read: ${why}. ${found}.`);
  if (!flags.yes && !(await agreed('Its beginning is where reading goes on. Type adopt to go on: ', 'adopt')))
    throw new TroupeError('usage', 'Nothing was adopted. Pass --yes to confirm.');
  const label = await adopt(db, source, { known, partitions: config.kafka_partitions, patiently });
  answer(
    flags,
    { adopted: true, log: label, replaced: known.label, why },
    `Adopted as ${label}: it is read from its beginning. What ${known.label} gave stays in the tables.`,
  );
  return EXIT.done;
}
