/** `troupe reconcile`: whether log and tables agree. */
import type { Command } from 'commander';
import { EXIT } from '../../errors.ts';
import { projectCommand } from '../command.ts';
import { print, printJson, table } from '../output.ts';

export function addTo(program: Command): void {
  projectCommand(
    program
      .command('reconcile')
      .addHelpText(
        'after',
        '\nreceived = acknowledged + rejected; what is in the log is in the tables or counted. It ends with 1 where that is not so. Feedback on steps that do not exist is counted\nand does not make it end with 1; `select * from traj.feedback where no_such_step` lists it.\n\nExample:\n  troupe reconcile --json',
      ),
    async ({ db, source, catchUp }, _, flags) => {
      await catchUp();
      const { reconcile } = await import('../../store/log/reconcile.ts');
      const found = await reconcile(db, source ? { name: source.name, ...(await source.facts()) } : undefined);
      if (flags.json) printJson(found);
      else {
        print(found.ok ? 'Everything adds up.' : 'Something does not add up:');
        print(
          table(
            ['endpoint', 'received', 'acknowledged', 'duplicates', 'rejected', 'balanced'],
            found.endpoints.map((d) => [
              d.endpoint,
              d.received,
              d.acknowledged,
              d.duplicates,
              d.rejected,
              String(d.balanced),
            ]),
          ),
        );
        for (const { log, partition, accepted, duplicates, dead, lag: behind } of found.topics) {
          print(
            `${log} ${partition}: ${accepted} accepted, ${duplicates} duplicates, ${dead} dead, ${behind ?? '?'} behind`,
          );
        }
        print(
          `log: ${found.log.events} events, ${found.log.pruned} pruned, ${found.log.gaps} partitions with gaps · tables: ${found.tables.applied} applied, ${found.tables.lag} behind · ${found.dead_letters} dead letters · ${found.split_identities.length} identities under several keys · ${found.feedback_without_step} feedback on steps that do not exist${Object.entries(
            found.orphans,
          )
            .map(([name, rows]) => ` · ${rows} without an event: ${name}`)
            .join('')}`,
        );
      }
      return found.ok ? EXIT.done : EXIT.failed;
    },
  );
}
