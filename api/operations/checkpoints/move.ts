/** What is kept of a folder of checkpoints, and what goes to another place or comes from there. */
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { TroupeError } from '../../../errors.ts';
import type { Db } from '../../../store/db/pool.ts';
import { query, rowsOf, sql } from '../../../store/db/query.ts';
import { pointLatest } from '../../../trainer/model/checkpoints/checkpoint.ts';
import { pruneCheckpoints } from '../../../trainer/model/checkpoints/prune.ts';
import { checkpointAt, storeAt } from '../checkpoint-places.ts';
import type { ReadContext } from '../operation.ts';
import { bestOf } from './best.ts';
import { folderOf } from './folder.ts';

type Rule = {
  readonly dir?: string;
  readonly keep_last: number;
  readonly keep_every?: number;
  readonly keep_best?: string;
  readonly dry_run: boolean;
};

export async function prune(context: ReadContext, { dir, keep_last, keep_every, keep_best, dry_run }: Rule) {
  const directory = folderOf(context, dir);
  if (!existsSync(directory)) throw new TroupeError('not_found', `There is no folder ${directory}.`);
  const needed = await context.inProject((db) => neededIds(db, keep_last));
  const rule = {
    keepLast: keep_last,
    ...(keep_every === undefined ? {} : { keepEvery: keep_every }),
    ...(keep_best === undefined ? {} : { keepBest: bestOf(keep_best) }),
    protectedIds: needed ?? [],
  };
  const pruned = await pruneCheckpoints(directory, rule, { dryRun: dry_run });
  const bytes = pruned.removed.reduce((sum, one) => sum + one.bytes, 0);
  const unknown = 'There is no project here, so it is unknown whether one of these was released.';
  const warnings = needed === null ? [unknown] : [];
  return { directory, dry_run, project: needed !== null, ...pruned, bytes, warnings };
}

/**
 * Every checkpoint that a policy was ever given, for rolling back is releasing it again; the last ones of each policy; those that a job
 * names that has not ended; and the bases of adapters.
 */
async function neededIds(db: Db, last: number): Promise<string[]> {
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
        one('c.place', '<=', last),
        // What plays, is compared or is trained from now.
        sql<boolean>`exists (select from troupe.job_queue j where j.state <> 'finished' and strpos(j.spec::text, c.checkpoint_id) > 0)`,
      ]),
    );
  // A kept adapter, wherever it lies, can neither be trained further nor served without its base.
  const bases = query
    .selectFrom('facts.checkpoints')
    .select(sql<string>`config -> 'adapter' ->> 'base'`.as('checkpoint_id'))
    .distinct()
    .where('kept', 'is not', false)
    .where(sql`config -> 'adapter' ->> 'base'`, 'is not', null);
  const rows = [...(await rowsOf(db, released)), ...(await rowsOf(db, known)), ...(await rowsOf(db, bases))];
  return rows.map(({ checkpoint_id }) => String(checkpoint_id));
}

type Push = { readonly checkpoint: string; readonly store: string; readonly in?: string; readonly latest: boolean };

export async function push(context: ReadContext, { checkpoint, store: address, in: within, latest }: Push) {
  const dir = checkpointAt(context.home, checkpoint, folderOf(context, within));
  const store = await storeAt(address);
  const { id, ...copied } = await store.put(dir);
  if (latest) await store.pointLatest(id);
  const adapter = existsSync(`${dir}-adapter`) ? `${dir}-adapter` : null;
  const left = `${adapter}, the adapter for servers, is not pushed: copy it yourself. The checkpoint is complete without it.`;
  return {
    ...{ checkpoint_id: id, store: store.address, latest, ...copied, adapter },
    warnings: adapter === null ? [] : [left],
  };
}

type Pull = { readonly store: string; readonly dir: string; readonly latest: boolean };

export async function pull(_: ReadContext, { store: address, dir: into, latest }: Pull) {
  const [, prefix, named] = /^(.*?)(?:\/([0-9a-f]{16}))?\/*$/.exec(address) as unknown as [string, string, string?];
  const store = await storeAt(prefix);
  const id = named ?? (await store.latest())?.id;
  if (id === undefined)
    throw new TroupeError('not_found', `${store.address} has no latest checkpoint; name one: ${store.address}/ID.`, {
      hint: `It holds ${(await store.list()).slice(-5).join(', ') || 'no checkpoint'}.`,
    });
  const { dir: directory, bytes } = await store.get(id, resolve(into));
  if (latest) await pointLatest(resolve(into), id);
  return { checkpoint_id: id, store: store.address, directory, bytes, latest };
}
