/** `troupe checkpoints prune`, `push` and `pull`: what is kept of a folder, and what goes to another place or comes from there. */
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { type Command, InvalidArgumentError } from 'commander';
import { bytesText } from '../../api/operations/bytes.ts';
import { loadConfig } from '../../config.ts';
import { countText, TroupeError } from '../../errors.ts';
import type { Db } from '../../store/db/pool.ts';
import { query, rowsOf, sql } from '../../store/db/query.ts';
import { homeAt } from '../../store/server/home.ts';
import type { PruneRule } from '../../trainer/model/checkpoints/prune.ts';
import { checkpointAt, storeAt } from '../checkpoint-places.ts';
import { type Flags, plainCommand, positive } from '../command.ts';
import { withContext } from '../context.ts';
import { print, printJson, say, table } from '../output.ts';

const ACCESS = `
A bucket is opened with AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and, for anything but AWS, AWS_ENDPOINT_URL.
Every file is compared with its hash on the way, and a transfer that ended in the middle goes on where it ended.`;

export function checkpointMoveCommands(checkpoints: Command): void {
  pruneCommand(checkpoints);
  pushCommand(checkpoints);
  pullCommand(checkpoints);
}

function pruneCommand(checkpoints: Command): void {
  plainCommand(
    checkpoints
      .command('prune')
      .description(
        'remove the checkpoints of a folder that no rule keeps; latest and released ones, and those in use, are always kept',
      )
      .argument('<dir>', 'folder of checkpoints')
      .requiredOption(
        '--keep-last <n>',
        'keep the N checkpoints with the highest steps, and the last N of each policy of the project',
        positive('keep-last'),
      )
      .option('--keep-every <n>', 'keep checkpoints whose step is a multiple of N', positive('keep-every'))
      .option('--keep-best <metric>', 'keep the best by a metric: METRIC, METRIC:min or METRIC:max', bestSpec)
      .option('--dry-run', 'print what would be removed, and remove nothing')
      .addHelpText(
        'after',
        `
The best is the smallest where the metric's name ends in "loss", else the greatest, unless :min or :max is given.
A checkpoint that cannot be read is kept. What was ever released, and what an unfinished job names, is asked of the project, where there is
one. An adapter goes with its checkpoint, and the base of an adapter that is kept is kept. What is known of a checkpoint stays: its lineage, its metrics, its releases.

Examples:
  troupe checkpoints prune ./checkpoints --keep-last 3 --dry-run
  troupe checkpoints prune ./checkpoints --keep-last 1 --keep-every 1000 --keep-best held_out_loss:min`,
      ),
    async ([dir], flags) => {
      const folder = resolve(dir!);
      if (!existsSync(folder)) throw new TroupeError('not_found', `There is no folder ${folder}.`);
      const { pruneCheckpoints } = await import('../../trainer/model/checkpoints/prune.ts');
      const dryRun = flags.dryRun === true;
      const needed = await neededIds(flags);
      const rule: PruneRule = {
        keepLast: Number(flags.keepLast),
        ...(flags.keepEvery === undefined ? {} : { keepEvery: Number(flags.keepEvery) }),
        ...(flags.keepBest === undefined ? {} : { keepBest: flags.keepBest as NonNullable<PruneRule['keepBest']> }),
        protectedIds: needed ?? [],
      };
      const { kept, removed, swept } = await pruneCheckpoints(folder, rule, { dryRun });
      const freed = removed.reduce((sum, { bytes }) => sum + bytes, 0);
      if (flags.json) {
        printJson({
          directory: folder,
          dry_run: dryRun,
          project: needed !== null,
          kept,
          removed,
          swept,
          bytes: freed,
        });
        return;
      }
      if (needed === null) say('There is no project here, so it is unknown whether one of these was released.');
      const rows = [
        ...kept.map(({ id, why }) => [id, 'kept', why.join(', ')]),
        ...removed.map(({ id, step, bytes }) => [
          id,
          dryRun ? 'to remove' : 'removed',
          `step ${step}, ${bytesText(bytes)}`,
        ]),
      ];
      if (rows.length > 0) print(table(['checkpoint', 'what', 'why'], rows));
      print(
        `${dryRun ? 'It would remove' : 'Removed:'} ${countText(removed.length, 'checkpoint')}, ${bytesText(freed)}; kept: ${kept.length}.`,
      );
    },
  );
}

function pushCommand(checkpoints: Command): void {
  plainCommand(
    checkpoints
      .command('push')
      .description('copy a checkpoint to a bucket or another folder')
      .argument('<checkpoint>', 'its directory, or its id')
      .argument('<store>', 's3://bucket/prefix, or a folder')
      .option('--in <dir>', 'folder to look up an id in')
      .option('--latest', 'update the pointer latest there')
      .addHelpText(
        'after',
        `${ACCESS}
The folder of an adapter beside it (ID-adapter, for PEFT and servers) stays where it is, and is named.\n\nExamples:\n  troupe checkpoints push ./checkpoints/ab12cd34ef56ab78 s3://bucket/team/coder --latest\n  troupe checkpoints push ab12cd34ef56ab78 /mnt/backup --in ./checkpoints`,
      ),
    async ([given, address], flags) => {
      const dir = checkpointAt(given!, flags);
      const store = await storeAt(address!);
      const { id, sent, kept, bytes } = await store.put(dir);
      if (flags.latest) await store.pointLatest(id);
      const adapter = existsSync(`${dir}-adapter`) ? `${dir}-adapter` : null;
      if (adapter !== null)
        say(
          `${adapter}, the adapter for servers, is not pushed: copy it yourself. The checkpoint is complete without it.`,
        );
      if (flags.json)
        printJson({
          checkpoint_id: id,
          store: store.address,
          sent,
          kept,
          bytes,
          adapter,
          latest: flags.latest === true,
        });
      else {
        const there = kept.length === 0 ? '' : `, ${kept.length} were there`;
        print(`${id} is in ${store.address}: ${countText(sent.length, 'file')} sent (${bytesText(bytes)})${there}`);
      }
    },
  );
}

function pullCommand(checkpoints: Command): void {
  plainCommand(
    checkpoints
      .command('pull')
      .description('copy a checkpoint from a bucket or another folder; the latest one if no id is given')
      .argument('<store>', 's3://bucket/prefix or s3://bucket/prefix/ID, or a folder')
      .argument('<dir>', 'folder of checkpoints that it is to lie in')
      .option('--latest', 'update the pointer latest of the folder')
      .addHelpText(
        'after',
        `${ACCESS}\n\nExamples:\n  troupe checkpoints pull s3://bucket/team/coder ./checkpoints --latest\n  troupe checkpoints pull s3://bucket/team/coder/ab12cd34ef56ab78 ./checkpoints`,
      ),
    async ([address, into], flags) => {
      const [, prefix, named] = /^(.*?)(?:\/([0-9a-f]{16}))?\/*$/.exec(address!) as unknown as [
        string,
        string,
        string?,
      ];
      const store = await storeAt(prefix);
      const id = named ?? (await store.latest())?.id;
      if (id === undefined) {
        throw new TroupeError(
          'not_found',
          `${store.address} has no latest checkpoint; name one: ${store.address}/ID.`,
          {
            hint: `It holds ${(await store.list()).slice(-5).join(', ') || 'no checkpoint'}.`,
          },
        );
      }
      const { dir, bytes } = await store.get(id, resolve(into!));
      if (flags.latest)
        await (await import('../../trainer/model/checkpoints/checkpoint.ts')).pointLatest(resolve(into!), id);
      if (flags.json)
        printJson({ checkpoint_id: id, store: store.address, directory: dir, bytes, latest: flags.latest === true });
      else print(`${id} is in ${dir} (${bytesText(bytes)})`);
    },
  );
}

/**
 * Every checkpoint that a policy was ever given, for rolling back is releasing it again; the last ones of each policy; those that a job
 * names that has not ended; and the bases of adapters. Null where there is no project to ask.
 */
const neededIds = (flags: Flags): Promise<string[] | null> =>
  askingProject(flags, async (db) => {
    const released = query
      .selectFrom('traj.releases')
      .select('checkpoint_id')
      .distinct()
      .where('checkpoint_id', 'is not', null);
    const newest = query
      .selectFrom('facts.checkpoints')
      .select('checkpoint_id')
      .select(sql<number>`row_number() over (partition by policy order by version desc)`.as('place'));
    const known = query
      .selectFrom(newest.as('c'))
      .select('c.checkpoint_id')
      .where((one) =>
        one.or([
          one('c.place', '<=', Number(flags.keepLast)),
          // What plays, is compared or is trained from now.
          sql<boolean>`exists (select from troupe.job_queue j where j.state <> 'finished' and strpos(j.spec::text, c.checkpoint_id) > 0)`,
        ]),
      );
    // An adapter that was kept, wherever, cannot be gone on with nor be served without them.
    const bases = query
      .selectFrom('facts.checkpoints')
      .select(sql<string>`config -> 'adapter' ->> 'base'`.as('checkpoint_id'))
      .distinct()
      .where('kept', 'is not', false)
      .where(sql`config -> 'adapter' ->> 'base'`, 'is not', null);
    const rows = [...(await rowsOf(db, released)), ...(await rowsOf(db, known)), ...(await rowsOf(db, bases))];
    return rows.map(({ checkpoint_id }) => String(checkpoint_id));
  });

/** What the project says, brought up to date; null where there is none to ask. */
export async function askingProject<T>(flags: Flags, ask: (db: Db) => Promise<T>): Promise<T | null> {
  const config = loadConfig(flags, process.env);
  if (config.database_url === null && !existsSync(homeAt(config.home).data)) return null;
  return withContext(flags, async ({ db, catchUp }) => {
    await catchUp();
    return ask(db);
  });
}

/** `METRIC`, `METRIC:min` or `METRIC:max`. */
export function bestSpec(text: string): NonNullable<PruneRule['keepBest']> {
  const [, metric = '', mode] = /^(.*?)(?::(min|max))?$/.exec(text) ?? [];
  if (metric === '' || metric.includes(':')) {
    throw new InvalidArgumentError('--keep-best should be METRIC, METRIC:min or METRIC:max.');
  }
  return { metric, mode: mode === 'min' || mode === 'max' ? mode : /loss$/.test(metric) ? 'min' : 'max' };
}
