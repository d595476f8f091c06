/** Trainers of others in environments of their own, and what their own code for datasets makes of exported folders. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const FOLDER = join(import.meta.dirname, 'trainers');

/** By the name of its list of requirements, the program that takes exported folders by this trainer. */
export const TRAINERS = {
  'llama-factory': 'take_llama_factory.py',
  verl: 'take_verl.py',
  axolotl: 'take_axolotl.py',
} as const;
export type Trainer = keyof typeof TRAINERS;

/** As `trainers/install` makes it, or how to get it. */
export function findTrainer(
  name: Trainer,
  env: Readonly<Record<string, string | undefined>>,
): { readonly python: string } | { readonly missing: string } {
  const hash = createHash('sha256');
  for (const list of ['torch', name]) hash.update(readFileSync(join(FOLDER, `${list}.txt`)));
  const cache = join(env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'troupe-ci');
  const venv = join(cache, `trainer-${name}-${hash.digest('hex').slice(0, 12)}`);
  return existsSync(join(venv, 'complete'))
    ? { python: join(venv, 'bin', 'python') }
    : { missing: `no environment of ${name}; say: proofs/trainers/install ${name} (some 6 GB for all three)` };
}

/** What a trainer made of a folder of layouts, against the frozen dataset. */
export type Taken = {
  readonly versions: Readonly<Record<string, string>>;
  /** By what was compared: answers that it has, those of the dataset that it lacks, and those that the dataset does not have. */
  readonly layouts: Readonly<
    Record<string, { rows: number; missing: number; more: number; examples: readonly string[] }>
  >;
  readonly warnings: readonly string[];
};

export async function takenBy(
  name: Trainer,
  python: string,
  { dataset, layouts, model }: { readonly dataset: string; readonly layouts: string; readonly model: string },
): Promise<Taken> {
  const env = { ...process.env, OMP_NUM_THREADS: '1' };
  const program = join(FOLDER, TRAINERS[name]);
  const { stdout } = await promisify(execFile)(python, [program, dataset, layouts, model], { env, maxBuffer: 2 ** 26 });
  return JSON.parse(stdout.slice(stdout.indexOf('{"versions"'))) as Taken;
}
