/** Which files an import reads: those named, and those in the folders named, in an order that every machine agrees on. */
import { readdir, realpath, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { TroupeError } from '../../errors.ts';

export type InputFile = {
  readonly path: string;
  readonly bytes: number;
  /** True where it was named itself, not found in a folder. */
  readonly named: boolean;
};

export type SkippedFile = { readonly file: string; readonly reason: string };

/** What is known of a file or folder that was named. Throws `not_found` where there is none. */
export const factsOf = (path: string) =>
  stat(path).catch((cause: unknown) => {
    throw new TroupeError('not_found', `There is no file or folder ${path}.`, { got: path, cause });
  });

/** The files behind `paths`, each once. Throws `not_found` for a path that is not there. */
export async function findFiles(
  paths: readonly string[],
): Promise<{ readonly files: readonly InputFile[]; readonly skipped: readonly SkippedFile[] }> {
  const files: InputFile[] = [];
  const skipped: SkippedFile[] = [];
  const seen = new Set<string>();

  const visit = async (path: string, named: boolean): Promise<void> => {
    const facts = await (named ? factsOf(path) : stat(path).catch(() => null));
    if (facts === null) {
      skipped.push({ file: path, reason: 'a link that leads nowhere' });
      return;
    }
    // Also ends a walk in a circle of links.
    const real = await realpath(path);
    if (seen.has(real)) return;
    seen.add(real);
    if (facts.isFile()) files.push({ path, bytes: facts.size, named });
    else if (facts.isDirectory()) {
      for (const name of (await readdir(path)).sort()) {
        if (name.startsWith('.')) skipped.push({ file: join(path, name), reason: 'its name begins with a dot' });
        else await visit(join(path, name), false);
      }
    } else skipped.push({ file: path, reason: 'not a regular file' });
  };
  for (const path of paths) await visit(path, true);
  return { files, skipped };
}
