/** The embedded log keeps the contract. */
import { partitionOf } from '../../ingest/log/partition.ts';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { freshDatabase } from '../support/database.ts';
import { archived, logContract } from './support/log-contract.ts';

logContract('embedded', async () => {
  const fresh = await freshDatabase();
  return {
    log: postgresLog(fresh.db),
    answersDuplicates: true,
    home: partitionOf,
    address: fresh.url,
    kept: () => archived(fresh.db),
    close: fresh.close,
  };
});
