/** Where a run saves its checkpoints: a folder, or a store that they are brought to besides. */
import { join, resolve } from 'node:path';
import { TroupeError } from '../../../errors.ts';
import { listCheckpoints } from '../../../trainer/model/checkpoints/checkpoint.ts';
import { storeAt } from '../checkpoint-places.ts';
import type { ReadContext } from '../operation.ts';

/**
 * A run needs a folder to resume from: that of a store lies in the home, and is said. Access to the store is tried before a step is made.
 * `put` brings a checkpoint that was just saved there; where the store does not answer, the run goes on with a warning. `finish` brings
 * whatever the folder holds and lets `latest` there name `id`. It throws where the store does not answer.
 */
export async function runOutput({ home, say }: Pick<ReadContext, 'home' | 'say'>, out: string) {
  if (!out.includes('://'))
    return { folder: resolve(out), address: null, put: async () => {}, finish: async (_id: string) => {} };
  const store = await storeAt(out);
  await store.latest();
  const folder = join(home.checkpoints, ...out.split(/:?\/+/).filter(Boolean));
  say(`Checkpoints are saved in ${folder} and uploaded to ${store.address}.`);
  return {
    folder,
    address: store.address,
    async put({ id, dir }: { readonly id: string; readonly dir: string }) {
      try {
        await store.put(dir);
        await store.pointLatest(id);
      } catch (error) {
        if (!(error instanceof TroupeError) || !error.retriable) throw error;
        say(`${id} is saved in ${folder} but not yet in ${store.address}: ${error.message}`);
      }
    },
    async finish(id: string) {
      try {
        for (const one of await listCheckpoints(folder)) await store.put(join(folder, one));
        await store.pointLatest(id);
      } catch (error) {
        if (!(error instanceof TroupeError)) throw error;
        const where = `${error.message} The run is finished, and its checkpoints are in ${folder}.`;
        const hint = 'Rerun the command with --resume: it uploads them without more training.';
        throw new TroupeError(error.code, where, { hint, cause: error });
      }
    },
  };
}
