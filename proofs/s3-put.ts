/** Puts a checkpoint into a bucket and says when it is done. Its argument is JSON: { address, access, dir }. */
import { openCheckpointStore } from '../trainer/model/checkpoints/bucket-store.ts';

const { address, access, dir } = JSON.parse(process.argv[2]!);
const store = await openCheckpointStore(address, () => access);
process.stdout.write('begins\n');
await store.put(dir);
process.stdout.write('done\n');
