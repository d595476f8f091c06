/** Where checkpoints are, as operations name them. */
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { TroupeError } from '../../errors.ts';
import type { Home } from '../../store/server/home.ts';
import type { CheckpointStore } from '../../trainer/model/checkpoints/checkpoint-store.ts';

const ID = /^[0-9a-f]{16}$/;

/** The folder of a checkpoint: as it is written, where that has a /, else that of the id, which is looked for in `folder`. @throws TroupeError `not_found` */
export function checkpointAt({ checkpoints }: Pick<Home, 'checkpoints'>, given: string, folder = checkpoints): string {
  if (given.includes('/')) return resolve(given);
  const dir = join(folder, given);
  if (ID.test(given) && existsSync(dir)) return dir;
  throw new TroupeError('not_found', `There is no checkpoint ${given} in ${folder}.`, {
    hint: 'Pass its directory, or --in FOLDER.',
  });
}

/** A store by its address, with the access that the environment gives. */
export async function storeAt(address: string): Promise<CheckpointStore> {
  const [{ openCheckpointStore }, { objectAccess }] = await Promise.all([
    import('../../trainer/model/checkpoints/bucket-store.ts'),
    import('../../trainer/model/checkpoints/object-store.ts'),
  ]);
  return openCheckpointStore(address, () => objectAccess(process.env));
}
