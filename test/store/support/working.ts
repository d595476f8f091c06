/** Takes one job and never ends it. Arguments: address of the database, name of the worker, lease in milliseconds. */
import { postgresLog } from '../../../ingest/log/postgres.ts';
import { openPool } from '../../../store/db/pool.ts';
import { runJobs } from '../../../store/queue/jobs/worker.ts';

const [url, worker, leaseMs] = process.argv.slice(2);
const db = openPool(url!, { max: 3 });
await runJobs(
  { db, log: postgresLog(db), now: () => new Date() },
  {
    worker: worker!,
    leaseMs: Number(leaseMs),
    signal: new AbortController().signal,
    handlers: {
      crash: async (job) => {
        process.stdout.write(`${job.token}\n`);
        await new Promise(() => setInterval(() => {}, 1000));
      },
    },
  },
);
