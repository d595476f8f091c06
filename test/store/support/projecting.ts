/** Projects small batches until it is killed. Argument: address of the database. */
import { openPool } from '../../../store/db/pool.ts';
import { projectBatch } from '../../../store/projecting/projector.ts';

const db = openPool(process.argv[2]!, { max: 1 });
for (;;) {
  const applied = await projectBatch(db, { perPartition: 2 });
  process.stdout.write('projected\n');
  if (applied === 0) await new Promise((resolve) => setTimeout(resolve, 5));
}
