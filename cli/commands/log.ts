/** The logs that the events of a project lie in: listing them, and taking a topic that replaced the one that was read as a new one. */
import type { Command } from 'commander';
import { EXIT, TroupeError } from '../../errors.ts';
import { adopt, lookToAdopt } from '../../store/log/adopt.ts';
import { listLogs } from '../../store/log/incarnations.ts';
import { databaseCommand, type Flags, projectCommand } from '../command.ts';
import type { Context } from '../context.ts';
import { print, printJson, say, table } from '../output.ts';
import { agreed } from './keep.ts';

export function logCommands(program: Command): void {
  const log = program.command('log').addHelpText('after', '\nExamples:\n  troupe log\n  troupe log adopt --yes');

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
      if (flags.json) printJson({ logs });
      else
        print(
          table(
            ['log', 'cluster', 'partitions', 'read', 'first read', 'replaced'],
            logs.map((one) => [one.log, one.cluster, one.partitions, one.read, one.first_read, one.replaced_at]),
          ),
        );
      return EXIT.done;
    },
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

async function adopted({ db, source, config, patiently }: Context, flags: Flags): Promise<number> {
  if (source === null)
    throw new TroupeError(
      'usage',
      'The log of this project lies in its database: kafka_brokers is not set, so no topic can be adopted.',
    );
  const { known, now, why } = await patiently(() => lookToAdopt(db, source));
  const clusterNow = now.cluster ?? 'unknown';
  if (why === null) {
    if (flags.json) printJson({ adopted: false, log: known.label, cluster: now.cluster });
    else print(`${known.label} in cluster ${clusterNow} is the log that was read: there is nothing to adopt.`);
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
  const label = await adopt(db, source, { known, partitions: config.kafka_partitions });
  if (flags.json) printJson({ adopted: true, log: label, replaced: known.label, why });
  else print(`Adopted as ${label}: it is read from its beginning. What ${known.label} gave stays in the tables.`);
  return EXIT.done;
}
