/** `troupe restore`: a project again from its file. */
import type { Command } from 'commander';
import { loadConfig } from '../../config.ts';
import { countText, TroupeError } from '../../errors.ts';
import { DEFAULT_PROJECT, openDatabase } from '../../store/db/database.ts';
import { readManifest, restoreBackup, schemaOf } from '../../store/server/backup/restore.ts';
import { openHome } from '../../store/server/home.ts';
import { backupSource } from '../backup-places.ts';
import { plainCommand } from '../command.ts';
import { serverOf } from '../database.ts';
import { growing } from '../growing.ts';
import { print, printJson, say } from '../output.ts';

export function addTo(program: Command): void {
  plainCommand(
    program
      .command('restore')
      .argument('<file>', 'a file or s3://BUCKET/KEY that troupe backup wrote')
      .addHelpText(
        'after',
        '\nInto a home or project that holds nothing, of any path; the project has the name that it had, if --project gives no other. A backup\nof an older Troupe is brought up to date. The whole file is checked before anything of it can be seen.\nA copy of a project that still runs elsewhere runs its schedules too: pause them there or here.\n\nExamples:\n  troupe restore troupe.tar.gz --home /var/lib/troupe\n  troupe restore troupe.tar.gz --project copy\n  troupe restore s3://backups/troupe/monday.tar.gz --home /var/lib/troupe',
      ),
    async ([file], flags) => {
      const config = loadConfig(flags, process.env);
      const source = await backupSource(file!);
      const manifest = await readManifest(source);
      const given = config.origins.project !== 'default';
      // A database that the address names is the project's.
      const project = given ? config.project : config.database_url === null ? manifest.project : undefined;
      const home = openHome(config.home);
      const database = await openDatabase({
        ...serverOf(config),
        ...(project === undefined ? {} : { project }),
        create: true,
        schema: schemaOf(manifest),
        applicationName: 'troupe',
      }).catch((error: unknown) => {
        if (!(error instanceof TroupeError) || error.code !== 'schema_newer') throw error;
        const text = `The project ${project ?? DEFAULT_PROJECT} is there already, with a newer schema than the backup; restore into one that is not: another --home, or another --project.`;
        throw new TroupeError('conflict', text, { cause: error });
      });
      try {
        const { project } = database;
        const report = await restoreBackup(database.db, source, {
          home,
          project,
          onProgress: growing('Restore', flags),
        });
        if (flags.json) printJson({ ...report, home: home.root });
        else
          print(
            `Project ${project} in ${home.root}: ${countText(report.rows, 'row')} and ${countText(report.files, 'file')}, as of ${report.made_at}`,
          );
        say(
          `What was erased after ${report.made_at} is in it again, so erase it here too. Where the original can still be asked, this lists it, with e/ before the id of an episode: troupe sql "select distinct key from traj.events where type = 'troupe.record.amended.v1' and data ->> 'op' = 'erase' and recorded_at > '${report.made_at}'"`,
          'warn',
        );
      } finally {
        await database.close();
      }
    },
  );
}
