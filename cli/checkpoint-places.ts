/** Where a run saves its checkpoints: a folder, or a store. */
import { join, resolve } from 'node:path';
import { storeAt } from '../api/operations/checkpoint-places.ts';
import { loadConfig } from '../config.ts';
import { TroupeError } from '../errors.ts';
import { homeAt } from '../store/server/home.ts';
import type { Flags } from './command.ts';
import { say } from './output.ts';

/** Where a run saves its checkpoints, and brings them besides. */
export type RunOutput = {
  readonly folder: string;
  readonly address: string | null;
  /** Brings a checkpoint that was just saved to the store; where that does not answer, the run goes on with a warning. */
  readonly put: (saved: { readonly id: string; readonly dir: string }) => Promise<void>;
  /** Brings whatever the folder holds to the store and lets latest there name `id`. Throws where that does not answer. */
  readonly finish: (id: string) => Promise<void>;
};

/**
 * The places of --out. A run needs a folder to resume from: that of a bucket lies in the home, and is printed. Access
 * to the bucket is tried before a step is made.
 */
export async function runOutput(flags: Flags): Promise<RunOutput> {
  const address = String(flags.out);
  if (!address.includes('://')) {
    return { folder: resolve(address), address: null, put: async () => {}, finish: async () => {} };
  }
  const store = await storeAt(address);
  await store.latest();
  const folder = join(
    homeAt(loadConfig(flags, process.env).home).checkpoints,
    ...address.split(/:?\/+/).filter(Boolean),
  );
  say(`Checkpoints are saved in ${folder} and uploaded to ${store.address}.`);
  return {
    folder,
    address: store.address,
    async put({ id, dir }) {
      try {
        await store.put(dir);
        await store.pointLatest(id);
      } catch (error) {
        if (!(error instanceof TroupeError) || !error.retriable) throw error;
        say(`${id} is saved in ${folder} but not yet in ${store.address}: ${error.message}`);
      }
    },
    async finish(id) {
      const { listCheckpoints } = await import('../trainer/model/checkpoints/checkpoint.ts');
      try {
        for (const one of await listCheckpoints(folder)) await store.put(join(folder, one));
        await store.pointLatest(id);
      } catch (error) {
        if (!(error instanceof TroupeError)) throw error;
        throw new TroupeError(
          error.code,
          `${error.message} The run is finished, and its checkpoints are in ${folder}.`,
          {
            hint: 'Rerun the command with --resume: it uploads them without more training.',
            cause: error,
          },
        );
      }
    },
  };
}
