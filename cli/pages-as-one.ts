/** All pages of an episode as one JSON document. What every page adds to waits in files, so that one page is held at a time. */
import { createReadStream } from 'node:fs';
import { appendFile, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { EpisodePage } from '../store/episodes/read-page.ts';

/** The lists that each page goes on with. */
const LISTS = ['conversation', 'steps', 'tool_calls', 'verdicts', 'rewards', 'credits'] as const;

/** Writes the document, and answers with the lists that were cut. */
export async function writePagesAsOne(
  pages: AsyncIterable<EpisodePage>,
  write: (text: string | Uint8Array) => unknown,
): Promise<readonly string[]> {
  const folder = await mkdtemp(join(tmpdir(), 'troupe-show-'));
  const fileOf = (list: string): string => join(folder, list);
  try {
    const begun = new Set<string>();
    const truncated = new Set<string>();
    let first: Record<string, unknown> | null = null;
    for (const list of LISTS) await writeFile(fileOf(list), '');
    for await (const { next, ...page } of pages) {
      first ??= { ...page, ...Object.fromEntries(LISTS.map((list) => [list, null])) };
      for (const name of page.truncated) truncated.add(name);
      for (const list of LISTS) {
        if (page[list].length === 0) continue;
        const rows = JSON.stringify(page[list]).slice(1, -1);
        await appendFile(fileOf(list), begun.has(list) ? `,${rows}` : rows);
        begun.add(list);
      }
    }
    let before = '{';
    for (const [name, value] of Object.entries({ ...first, truncated: [...truncated] })) {
      write(`${before}${JSON.stringify(name)}:`);
      before = ',';
      if ((LISTS as readonly string[]).includes(name)) {
        write('[');
        for await (const bytes of createReadStream(fileOf(name))) write(bytes as Uint8Array);
        write(']');
      } else write(JSON.stringify(value));
    }
    write('}\n');
    return [...truncated];
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
