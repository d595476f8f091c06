/** Operations whose content comes or goes as bytes, in place of files that whoever asks names. */
import { createReadStream } from 'node:fs';
import { mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { archiveEnd, entryHead, padding } from '../../store/server/backup/tar.ts';
import type { ChangeContext, Operation } from './operation.ts';
import { inputOf, perform } from './perform.ts';
import { contentOf } from './route.ts';

/**
 * Performs it on a file of its own, which is gone once the result was read. Nothing of the result comes before the work has ended, so what
 * fails leaves no part of it.
 * @param allowed the operation as whoever asks may call it
 */
export async function performOnBytes(
  operation: Operation,
  context: ChangeContext,
  { allowed, given, body }: { readonly allowed: Operation; readonly given: unknown; readonly body: Uint8Array },
): Promise<{ readonly output: unknown; readonly result: AsyncIterable<Buffer> | null }> {
  const { field, kind } = contentOf(operation)!;
  const input = inputOf(allowed, given);
  const folder = await mkdtemp(join(tmpdir(), 'troupe-content-'));
  const remove = () => rm(folder, { recursive: true, force: true });
  try {
    const place = join(folder, kind === 'content' ? 'content' : 'result');
    if (kind === 'content') await writeFile(place, body);
    const { type } = operation.input.properties[field] as { readonly type?: string };
    const output = await perform(operation, context, { ...input, [field]: type === 'array' ? [place] : place });
    if (kind === 'content') await remove();
    return { output, result: kind === 'content' ? null : readAndRemove(place, kind === 'results', remove) };
  } catch (error) {
    await remove();
    throw error;
  }
}

async function* readAndRemove(place: string, isFolder: boolean, remove: () => Promise<void>) {
  try {
    if (isFolder) yield* archiveOf(place);
    else yield* createReadStream(place) as AsyncIterable<Buffer>;
  } finally {
    await remove();
  }
}

/** A tar archive of the files of a folder. */
async function* archiveOf(folder: string): AsyncGenerator<Buffer> {
  for (const name of (await readdir(folder)).sort()) {
    const { size } = await stat(join(folder, name));
    yield entryHead(name, size);
    yield* createReadStream(join(folder, name)) as AsyncIterable<Buffer>;
    yield padding(size);
  }
  yield archiveEnd();
}
