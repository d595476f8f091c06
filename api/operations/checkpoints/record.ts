/** Checkpoints that were trained by hand, recorded so that release, checkpoints and lineage know them. */
import { resolve } from 'node:path';
import { hashId } from '../../../ingest/events/json.ts';
import { appendOwn } from '../../../ingest/log/own-event.ts';
import type { Db } from '../../../store/db/pool.ts';
import { anyOf, query, rowsOf, sql } from '../../../store/db/query.ts';
import { latestCheckpoint, verifyCheckpoint } from '../../../trainer/model/checkpoints/checkpoint.ts';
import type { ChangeContext } from '../operation.ts';

export type RecordedCheckpoint = {
  readonly checkpoint_id: string;
  readonly directory: string;
  readonly policy: string | null;
  readonly parent_id: string | null;
  readonly dataset_ids: readonly string[];
};

/**
 * Appends `checkpoint.saved` for the checkpoint in `dir`, or the latest one of a folder of checkpoints, and brings the tables up to it.
 * Every file of it is compared with its hash first. Its datasets are those of its manifest: by their id where the project knows them, else
 * by their content hash.
 * @throws TroupeError `not_found` and `checkpoint_damaged`
 */
export async function recordCheckpoint(
  { db, log, now, catchUp }: Pick<ChangeContext, 'db' | 'log' | 'now' | 'catchUp'>,
  dir: string,
  policy: string | null,
): Promise<RecordedCheckpoint> {
  const directory = (await latestCheckpoint(resolve(dir))) ?? resolve(dir);
  const { id, sha256, meta } = await verifyCheckpoint(directory);
  await catchUp();
  const dataset_ids = await datasetIds(db, meta.datasets);
  const time = now().toISOString();
  await appendOwn(
    log,
    [
      {
        name: 'checkpoint.saved',
        source: '/checkpoints',
        id: hashId(id, policy, directory, time),
        time,
        data: {
          checkpoint_id: id,
          parent_id: meta.parent,
          policy,
          uri: directory,
          sha256,
          step: meta.step,
          dataset_ids: [...dataset_ids],
          kept: true,
          ...(meta.adapter === undefined ? {} : { config: { adapter: meta.adapter } }),
          metrics: Object.fromEntries(Object.entries(meta.metrics).filter(([, value]) => value !== null)),
          code_version: meta.code_version,
        },
      },
    ],
    'usage',
  );
  await catchUp();
  return { checkpoint_id: id, directory, policy, parent_id: meta.parent, dataset_ids };
}

async function datasetIds(db: Db, hashes: readonly string[]): Promise<readonly string[]> {
  const hash = sql<string>`manifest ->> 'content_sha256'`;
  const rows = await rowsOf(
    db,
    query
      .selectFrom('facts.datasets')
      .select([hash.as('hash'), sql<string>`min(dataset_id)`.as('id')])
      .where(hash, '=', anyOf(hashes))
      .groupBy(hash),
  );
  const ids = new Map(rows.map(({ hash, id }) => [hash, id]));
  return hashes.map((hash) => ids.get(hash) ?? hash);
}
