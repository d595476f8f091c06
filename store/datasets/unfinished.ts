/**
 * What a freeze that was killed left behind. Rows are of one moment of the database, which ends with the process, so a freeze goes on
 * from where all of them were written: the files of rows stay as they are, and what is made of them alone is made again.
 */
import { open, readdir, readFile, rename, rm } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { canonicalJson } from '../../ingest/json.ts';
import { LINEAGE_FILE, type RowTrail, rowTrail } from './lineage.ts';
import { lineageLines } from './lineage-lines.ts';
import type { Manifest, Positions } from './manifest.ts';
import { type Draft, draftAt, draftPath, isTemporary, STATE_FILE } from './publish.ts';
import type { SplitName } from './query.ts';
import { hashOf } from './read.ts';

export type Unfinished = {
  /** The recipe that was asked for, before methods, files and datasets were pinned. */
  readonly asked: string;
  /** Its `files` are those that hold rows. */
  readonly manifest: Manifest;
  readonly warnings: readonly string[];
  readonly host: string;
  readonly pid: number;
};

/** Drafts of this process, which nobody else may take. */
const own = new Set<string>();

/** Says of a draft whose rows are all written what another process needs to finish it. */
export async function keepUnfinished(
  draft: Draft,
  state: Pick<Unfinished, 'asked' | 'manifest' | 'warnings'>,
): Promise<void> {
  own.add(draft.path);
  const file = await open(join(draft.path, `${STATE_FILE}.tmp`), 'w');
  try {
    await file.writeFile(JSON.stringify({ ...state, host: hostname(), pid: process.pid }));
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(join(draft.path, `${STATE_FILE}.tmp`), join(draft.path, STATE_FILE));
}

/** Takes the state away: the draft is whole. */
export async function forgetUnfinished(draft: Draft): Promise<void> {
  await rm(join(draft.path, STATE_FILE), { force: true });
  own.delete(draft.path);
}

export type TakenUp = Pick<Unfinished, 'manifest' | 'warnings'> & {
  readonly draft: Draft;
  readonly trails: readonly RowTrail[];
};

/**
 * The draft of a dead process for the same recipe, by the same code, at the same positions; null where there is none. A file that is not
 * as it was written, or is missing, makes it none.
 */
export async function takeUp(
  parent: string,
  wanted: { readonly asked: string; readonly positions: Positions; readonly codeVersion: string },
): Promise<TakenUp | null> {
  for (const { directory, state } of await unfinishedIn(parent)) {
    const { manifest, asked, warnings } = state;
    const same =
      asked === wanted.asked &&
      manifest.code_version === wanted.codeVersion &&
      canonicalJson(manifest.positions) === canonicalJson(wanted.positions);
    if (!same || isAlive(state, directory)) continue;
    const path = draftPath(parent);
    own.add(path);
    // One of two that want it gets it.
    if (
      !(await rename(directory, path).then(
        () => true,
        () => false,
      ))
    )
      continue;
    if (!(await isWhole(path, manifest))) continue;
    for (const name of await readdir(path)) {
      if (name !== STATE_FILE && !manifest.files.some((file) => file.name === name)) await rm(join(path, name));
    }
    return { draft: await draftAt(path), manifest, warnings, trails: await trailsOf(path, manifest) };
  }
  return null;
}

/** The drafts under a folder whose rows are all written. */
export async function unfinishedIn(
  parent: string,
): Promise<readonly { readonly directory: string; readonly state: Unfinished }[]> {
  const names = (await readdir(parent).catch(() => [] as string[])).filter(isTemporary).sort();
  const found = names.map(async (name) => {
    const directory = join(parent, name);
    const text = await readFile(join(directory, STATE_FILE), 'utf8').catch(() => null);
    return text === null ? [] : [{ directory, state: JSON.parse(text) as Unfinished }];
  });
  return (await Promise.all(found)).flat();
}

/** Another machine that shares the folder may be at work on it; nobody here can tell. */
export function isAlive({ host, pid }: Unfinished, directory: string): boolean {
  if (host !== hostname() || own.has(directory)) return true;
  if (pid === process.pid) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

async function isWhole(path: string, { files }: Manifest): Promise<boolean> {
  for (const { name, sha256 } of files) {
    if ((await hashOf(join(path, name)).catch(() => null)) !== sha256) return false;
  }
  return files.some(({ name }) => name === LINEAGE_FILE);
}

async function trailsOf(path: string, manifest: Manifest): Promise<readonly RowTrail[]> {
  const trails = new Map(
    Object.keys(manifest.rows).map((split) => [split, rowTrail(split as SplitName, manifest.recipe.unit)]),
  );
  for await (const line of lineageLines(path, manifest)) trails.get(line.split)!.addLine(line);
  return [...trails.values()];
}
