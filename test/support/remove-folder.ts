import { realpathSync, rmSync } from 'node:fs';
import { madeElsewhere } from '../../store/server/elsewhere.ts';

/** A server that ends may still write while its folder is removed. */
const OPTIONS = { recursive: true, force: true, maxRetries: 10, retryDelay: 200 } as const;

/** Removes a folder with the databases of the homes in it, which lie outside where Troupe runs as root. */
export function removeFolder(folder: string, base?: string): void {
  const own = `${realpathSync(folder)}/`;
  for (const made of madeElsewhere(base)) if (made.home?.startsWith(own)) rmSync(made.folder, OPTIONS);
  rmSync(folder, OPTIONS);
}
