/** The program of the thread that handles large requests: the same app over connections of its own. */
import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import { nameLog } from '../../api/http/log.ts';
import { offloadedApp } from '../../api/http/offload-thread.ts';
import { type Patiently, patiently } from '../../store/db/patience.ts';
import { openPool } from '../../store/db/pool.ts';
import { openReader } from '../../store/db/reader.ts';
import { withLog } from '../context.ts';
import { openedOnce } from '../opened-once.ts';
import { openServing, type ThreadData } from './serving.ts';
import { tracing } from './tracing.ts';

const { config, url, project, embedded, role, firstKey, exposed } = workerData as ThreadData;
nameLog({ role });
const db = openPool(url, { max: 4, applicationName: 'troupe' });
const database = { db, url, project, embedded, close: () => db.close() };
const tried: Patiently = (work) => patiently(work, { forMs: config.patience * 1000 });
const failed = new Promise<never>(() => {});
const reader = openedOnce(() => openReader(database));
const opened = { config, database, db, reader: reader.open, patiently: tried, now: () => new Date(), failed };
await withLog(opened, async (context) => {
  const { prepare, answer } = offloadedApp(parentPort as MessagePort);
  await tracing(config, { role, project }, async () => {
    const { app, close } = await openServing(context, { role, firstKey, exposed: async () => exposed, prepare });
    await answer(app, context.redactor.found);
    await close();
  });
});
await reader.close();
await db.close();
