/** `troupe backup`: a project in one file. */
import type { Command } from 'commander';
import { bytesText } from '../../api/operations/bytes.ts';
import { countText } from '../../errors.ts';
import { writeBackup } from '../../store/server/backup/backup.ts';
import { openHome } from '../../store/server/home.ts';
import { backupTarget } from '../backup-places.ts';
import { databaseCommand } from '../command.ts';
import { growing } from '../growing.ts';
import { print, printJson, say } from '../output.ts';
import { VERSION } from '../version.ts';

export function addTo(program: Command): void {
  databaseCommand(
    program
      .command('backup')
      .argument('<file>', 'file or s3://BUCKET/KEY to write, such as troupe.tar.gz; it must not be there')
      .addHelpText(
        'after',
        '\nAll tables of the project as of one moment, and the datasets, checkpoints, artifacts, archives and benchmarks of the home.\nNothing has to be stopped. The file holds all that was recorded and the hashes of API keys: keep it where the home may be kept. Not in it: other\nprojects, checkpoints and archives in S3, and events in Kafka that no projector has read.\n\nExamples:\n  troupe backup troupe.tar.gz\n  troupe backup "/backups/$(date +%F).tar.gz" --quiet\n  troupe backup s3://backups/troupe/monday.tar.gz\n\nFor S3 it takes AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and, for anything but AWS, AWS_ENDPOINT_URL.',
      ),
    async ({ db, database, config, now }, [file], flags) => {
      const report = await writeBackup(db, await backupTarget(file!), {
        home: openHome(config.home),
        project: database.project,
        version: VERSION,
        now: now(),
        onProgress: growing('Backup', flags),
      });
      const { missing, links } = report;
      if (missing.length > 0)
        say(
          `Not in the home, so not in the backup: ${missing.slice(0, 5).join(', ')}${missing.length > 5 ? ` and ${missing.length - 5} more` : ''}.`,
          'warn',
        );
      if (links.length > 0)
        say(
          `Symbolic links are not copied: ${links.slice(0, 5).join(', ')}${links.length > 5 ? ` and ${links.length - 5} more` : ''}.`,
          'warn',
        );
      if (flags.json) printJson(report);
      else
        print(
          `${report.file}: ${countText(report.rows, 'row')} and ${countText(report.files, 'file')} in ${bytesText(report.bytes)}`,
        );
    },
  );
}
