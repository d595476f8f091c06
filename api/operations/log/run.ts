/** What operations on logs do. */
import { TroupeError } from '../../../errors.ts';
import { adopt, lookToAdopt } from '../../../store/log/adopt.ts';
import { listLogs } from '../../../store/log/incarnations.ts';
import { type PageRequest, pageOf } from '../lists.ts';
import type { ChangeContext, ReadContext } from '../operation.ts';

export const list = async ({ db }: ReadContext, page: PageRequest) =>
  pageOf(
    (await listLogs(db)).map(({ log, cluster, partitions, first_read, replaced_at, read }) => ({
      ...{ log, cluster, partitions, first_read, replaced_at, read },
    })),
    'log',
    page,
  );

export async function adopted(
  { db, source, settings, patiently }: ChangeContext,
  { dry_run }: { readonly dry_run: boolean },
) {
  if (source === null)
    throw new TroupeError(
      'usage',
      'The log of this project lies in its database: kafka_brokers is not set, so no topic can be adopted.',
    );
  const { known, now, why } = await patiently(() => lookToAdopt(db, source));
  const found = {
    ...{ why, cluster: now.cluster, partitions: now.partitions.length },
    offsets: now.partitions.reduce((sum, { begin, end }) => sum + end - begin, 0),
  };
  if (why === null || dry_run) return { adopted: false, log: known.label, replaced: null, ...found };
  const partitions = settings.kafka_partitions ?? 8;
  const log = await adopt(db, source, { known, partitions, patiently });
  return { adopted: true, log, replaced: known.label, ...found };
}
