/** What the tables are after events came in a given order. */
import type { Event } from '../../../ingest/events/events.ts';
import { postgresLog } from '../../../ingest/log/postgres.ts';
import { projectAll } from '../../../store/projecting/projector.ts';
import { checksum } from '../../../store/projecting/rebuilding/checksum.ts';
import { freshDatabase } from '../../support/database.ts';

/** Appends in the given order and batch size, projecting after every batch, and gives the checksum of all tables. */
export async function tablesOf(events: readonly Event[], batch: number): Promise<Awaited<ReturnType<typeof checksum>>> {
  const fresh = await freshDatabase();
  try {
    const log = postgresLog(fresh.db);
    for (let i = 0; i < events.length; i += batch) {
      await log.append(events.slice(i, i + batch));
      await projectAll(fresh.db, { perPartition: batch });
    }
    return await checksum(fresh.db);
  } finally {
    await fresh.close();
  }
}
