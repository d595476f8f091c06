import { realpathSync, rmSync } from 'node:fs';
import { madeElsewhere } from '../../store/db/elsewhere.ts';

/** Removes a folder with the databases of the homes in it, which lie outside where Troupe runs as root. */
export function removeFolder(folder: string, base?: string): void {
  const own = `${realpathSync(folder)}/`;
  for (const made of madeElsewhere(base))
    if (made.home?.startsWith(own)) rmSync(made.folder, { recursive: true, force: true });
  rmSync(folder, { recursive: true, force: true });
}
