/** All pages of an episode as one JSON document. What every page adds to waits in files, so that one page is held at a time. */
import { existsSync } from 'node:fs';
import { type FileHandle, mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { EXIT } from '../errors.ts';
import type { EpisodePage } from '../store/explore/episodes/read-page.ts';
import type { Home } from '../store/server/home.ts';

/** The lists that each page goes on with. */
const LISTS = ['conversation', 'steps', 'tool_calls', 'verdicts', 'rewards', 'credits'] as const;

/** Prints them to standard output. */
export async function printAsOne(pages: AsyncIterable<object>, { run }: Pick<Home, 'run'>): Promise<number> {
  // Beside a server of its own there need be no home.
  const folder = existsSync(run) ? run : tmpdir();
  await writePagesAsOne(pages as AsyncIterable<EpisodePage>, folder, (text) => process.stdout.write(text));
  return EXIT.done;
}

/**
 * Writes the document. The files are in `folder`, of the home: the folder for temporary files is
 * memory in a container. They have no name from the start, so that a process that is killed leaves none.
 */
export async function writePagesAsOne(
  pages: AsyncIterable<EpisodePage>,
  folder: string,
  write: (text: string | Uint8Array) => unknown,
): Promise<void> {
  const files = await unnamed(folder);
  try {
    const begun = new Set<string>();
    const truncated = new Set<string>();
    let first: Record<string, unknown> | null = null;
    for await (const { next, ...page } of pages) {
      first ??= { ...page, ...Object.fromEntries(LISTS.map((list) => [list, null])) };
      for (const name of page.truncated) truncated.add(name);
      for (const list of LISTS) {
        if (page[list].length === 0) continue;
        const rows = JSON.stringify(page[list]).slice(1, -1);
        await files.get(list)!.appendFile(begun.has(list) ? `,${rows}` : rows);
        begun.add(list);
      }
    }
    let before = '{';
    for (const [name, value] of Object.entries({ ...first, truncated: [...truncated], next: null })) {
      write(`${before}${JSON.stringify(name)}:`);
      before = ',';
      const file = files.get(name);
      if (file !== undefined) {
        write('[');
        for await (const bytes of file.createReadStream({ start: 0, autoClose: false })) write(bytes as Uint8Array);
        write(']');
      } else write(JSON.stringify(value));
    }
    write('}\n');
  } finally {
    for (const file of files.values()) await file.close();
  }
}

async function unnamed(folder: string): Promise<ReadonlyMap<string, FileHandle>> {
  const own = await mkdtemp(join(folder, 'show-'));
  const files = new Map<string, FileHandle>();
  try {
    for (const list of LISTS) files.set(list, await open(join(own, list), 'w+'));
    return files;
  } finally {
    await rm(own, { recursive: true, force: true });
  }
}
