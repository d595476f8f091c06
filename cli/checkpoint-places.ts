/** Where checkpoints are, as commands name them: a folder, an id in a folder, a store. */
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { loadConfig } from '../config.ts';
import { TroupeError } from '../errors.ts';
import { homeAt } from '../store/server/home.ts';
import type { CheckpointStore } from '../trainer/model/checkpoints/checkpoint-store.ts';
import type { Flags } from './command.ts';
import { say } from './output.ts';

const ID = /^[0-9a-f]{16}$/;

/** The given folder, or the home's. */
export function folderOf(dir: string | undefined, flags: Flags): string {
  return dir === undefined ? homeAt(loadConfig(flags, process.env).home).checkpoints : resolve(dir);
}

/** The directory of a checkpoint by itself or by its id, which is looked for in --in. Throws `not_found` for an id that is not there. */
export function checkpointAt(given: string, flags: Flags): string {
  if (existsSync(given) || !ID.test(given)) return resolve(given);
  const folder = folderOf(flags.in === undefined ? undefined : String(flags.in), flags);
  const dir = join(folder, given);
  if (existsSync(dir)) return dir;
  throw new TroupeError('not_found', `There is no checkpoint ${given} in ${folder}.`, {
    hint: 'Pass its directory, or --in FOLDER.',
  });
}

/** A store by its address, with the access that the environment gives. */
export async function storeAt(address: string): Promise<CheckpointStore> {
  const [{ openCheckpointStore }, { objectAccess }] = await Promise.all([
    import('../trainer/model/checkpoints/bucket-store.ts'),
    import('../trainer/model/checkpoints/object-store.ts'),
  ]);
  return openCheckpointStore(address, () => objectAccess(process.env));
}

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
  const folder = join(folderOf(undefined, flags), ...address.split(/:?\/+/).filter(Boolean));
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
