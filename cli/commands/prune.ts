/** Pruning: old episodes go into files, and come back. */
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { archivePlaces } from '../../api/operations/archive-places.ts';
import { bytesText } from '../../api/operations/bytes.ts';
import { countText, EXIT, got, TroupeError } from '../../errors.ts';
import { fileArtifacts } from '../../ingest/log/artifacts.ts';
import type { PrunePlan, Pruning } from '../../store/keep/prune.ts';
import { agreed } from '../agreed.ts';
import { type Flags, projectCommand, wholeNumber } from '../command.ts';
import type { Context } from '../context.ts';
import { episodeFilter } from '../episode-filter.ts';
import { answer, print, printJson, progressBar, say } from '../output.ts';
import { VERSION } from '../version.ts';

const HELP = `
Whole groups go, once all their episodes are closed and nothing happened to them since; what an unfinished job reads stays. Each
archive is written, read back and compared before anything is removed; stopped at any moment, a second run goes on. Events about
what was pruned are refused until it is restored. Datasets, checkpoints and their lineage stay. The view traj.pruned names the places.
\`troupe rebuild --archived\` shows it in the tables while it stays in its archives; pruned again, it leaves the tables alone.

Examples:
  troupe prune --older-than 90d --dry-run
  troupe prune --older-than 90d --yes
  troupe prune --older-than 2026-01-01 --where 'tags.phase = trial' --to /mnt/archive --yes
  troupe prune --restore /mnt/archive/2026-11-21-ab12cd34ef56
  troupe prune --restore /mnt/archive      all archives in it
  troupe prune --older-than 1y --to s3://archive/troupe --yes
  troupe prune --restore s3://archive/troupe/2026-11-21-ab12cd34ef56

For S3 it takes AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and, for anything but AWS, AWS_ENDPOINT_URL.`;

export function addTo(program: Command): void {
  projectCommand(
    program
      .command('prune')
      .option('--older-than <time>', 'only groups without events since then: 90d, 12h, 4w, 1y ago, or a date')
      .option('--where <filter>', 'only groups whose episodes all match this filter, as in a recipe')
      .option('--to <place>', 'folder or s3://BUCKET/PREFIX to write archives into (default: archives in the home)')
      .option('--limit <n>', 'maximum number of episodes; whole groups only', wholeNumber('limit'))
      .option(
        '--restore <place>',
        'put back what lies in an archive, a folder or s3://BUCKET/PREFIX, a file of it, or in all archives there',
      )
      .option('--dry-run', 'print what would be pruned, and change nothing')
      .option('--yes', 'do not ask for confirmation')
      .addHelpText('after', HELP),
    async (context, _, flags) => {
      if ((flags.olderThan === undefined) === (flags.restore === undefined)) {
        throw new TroupeError('usage', 'Missing --older-than TIME (to prune) or --restore PLACE (to restore).');
      }
      await context.catchUp();
      return flags.restore === undefined ? pruned(context, flags) : restored(context, String(flags.restore), flags);
    },
  );
}

async function pruned({ db, home, now, config, artifacts, patiently }: Context, flags: Flags): Promise<number> {
  const [{ planPrune, prune }, { judgeAgain }] = await Promise.all([
    import('../../store/keep/prune.ts'),
    import('../../store/evaluate/judging/judge.ts'),
  ]);
  const what = {
    before: boundOf(String(flags.olderThan), now()),
    now: now(),
    where: flags.where === undefined ? null : await episodeFilter(db, String(flags.where), '--where'),
    closeAfter: config.close_after,
  };
  const limit = (flags.limit as number | undefined) ?? null;
  const to = placeOf((flags.to as string | undefined) ?? home.archives);
  // Before anything is read: whether there is access to the place.
  await archivePlaces(to);
  const plan = await patiently(() => planPrune(db, what, limit));
  const sentence = `${countText(plan.episodes, 'episode')} of ${countText(plan.groups, 'group')}${inArchives(plan)}, ${countText(plan.events, 'event')}, ${bytesText(plan.bytes)}`;
  if (flags.dryRun) {
    answer(flags, { before: what.before.toISOString(), ...plan }, `It would prune ${sentence}.`);
    return EXIT.done;
  }
  if (
    plan.groups > 0 &&
    !flags.yes &&
    !(await agreed(`This moves ${sentence} out of the database. Type prune to go on: `, 'prune'))
  ) {
    throw new TroupeError('usage', `Nothing was pruned (${sentence}). Pass --yes to confirm.`);
  }
  const bar = progressBar('Pruning', { quiet: flags.quiet === true || flags.json === true });
  const options = {
    ...what,
    limit,
    to,
    places: archivePlaces,
    codeVersion: VERSION,
    judge: judgeAgain,
    bodies: {
      get: (sha256: string) => artifacts.get(sha256).catch(onlyIfGone),
      remove: artifacts.remove,
    },
    onProgress: ({ events, total }: { readonly events: number; readonly total: number }) =>
      bar.update(events, total, `${events} events`),
  };
  // Run again it goes on where it was, and counts what was left.
  const done = await patiently(() => prune(db, options)).finally(bar.stop);
  if (flags.json) printJson(done);
  else printDone(done);
  return EXIT.done;
}

const inArchives = ({ archived }: PrunePlan): string => (archived === 0 ? '' : ` (in archives already: ${archived})`);

function printDone(done: Pruning): void {
  const { episodes, groups, events, archives, artifacts, changed } = done;
  if (episodes === 0) print('Nothing to prune: no closed group was silent for so long.');
  else {
    print(
      `Pruned: ${countText(episodes, 'episode')} of ${countText(groups, 'group')}${inArchives(done)}, ${countText(events, 'event')}, ${countText(artifacts, 'artifact')}.`,
    );
    for (const { uri, bytes, files } of archives)
      print(`${uri}: ${countText(files.length, 'file')}, ${bytesText(bytes)}`);
  }
  if (changed > 0) say(`Changed while archived, and so not pruned: ${countText(changed, 'group')}.`);
}

/** A body that was erased is not missing; one that cannot be read must not be forgotten. */
function onlyIfGone(error: unknown): null {
  if (error instanceof TroupeError && error.code === 'not_found') return null;
  throw error;
}

async function restored({ db, home, patiently }: Context, path: string, flags: Flags): Promise<number> {
  const [{ restore }, { judgeAgain }] = await Promise.all([
    import('../../store/keep/restore.ts'),
    import('../../store/evaluate/judging/judge.ts'),
  ]);
  const bar = progressBar('Restoring', { quiet: flags.quiet === true || flags.json === true });
  const done = await patiently(() =>
    restore(db, placeOf(path), {
      places: archivePlaces,
      judge: judgeAgain,
      // As they were: rules that came since would make other bodies of them.
      putBodies: fileArtifacts(home.artifacts).put,
      onProgress: ({ events, total }) => bar.update(events, total, `${events} events`),
    }),
  ).finally(bar.stop);
  if (flags.json) printJson(done);
  else {
    for (const { uri, episodes, events, left_out } of done.archives)
      print(
        `${uri}: ${countText(episodes, 'episode')}, ${countText(events, 'event')}${left_out > 0 ? `; left out, being back or erased: ${countText(left_out, 'key')}` : ''}`,
      );
    print('Restored. What was refused meanwhile can be replayed: troupe deadletters replay --code pruned');
  }
  return EXIT.done;
}

/** Of a folder its whole path, which the database keeps. */
const placeOf = (place: string): string => (place.includes('://') ? place.replace(/\/+$/, '') : resolve(place));

const UNITS = { m: 60, h: 3600, d: 86_400, w: 7 * 86_400, y: 365 * 86_400 } as const;

/** `90d`: so long ago; or a date, or a time with its zone. */
function boundOf(text: string, now: Date): Date {
  const [, amount, unit] = /^(\d{1,6})([mhdwy])$/.exec(text) ?? [];
  const seconds = Number(amount) * UNITS[unit as keyof typeof UNITS];
  if (amount !== undefined) return new Date(Math.max(0, now.getTime() - seconds * 1000));
  const at = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2}))?$/.test(text)
    ? Date.parse(text)
    : Number.NaN;
  if (!Number.isNaN(at)) return new Date(at);
  throw new TroupeError(
    'usage',
    `--older-than should be such as 90d, 12h, 4w or 1y, a date such as 2026-01-31, or a time with its zone, but it is ${got(text)}.`,
  );
}
