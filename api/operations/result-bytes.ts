/** Operations whose result is bytes, in place of a file or folder that whoever asks names. */
import { createReadStream } from 'node:fs';
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { archiveEnd, entryHead, padding } from '../../store/server/backup/tar.ts';
import type { ChangeContext, Operation } from './operation.ts';
import { inputOf, perform } from './perform.ts';
import { resultField } from './route.ts';

/**
 * Performs it on a temporary file or folder, which is removed when the result has been read. The result begins when the work has ended, so
 * work that fails sends no part of it.
 * @param allowed the operation as whoever asks may call it
 */
export async function performForBytes(
  operation: Operation,
  context: ChangeContext,
  { allowed, given }: { readonly allowed: Operation; readonly given: unknown },
): Promise<{ readonly output: unknown; readonly result: AsyncIterable<Buffer> }> {
  const { field, kind } = resultField(operation)!;
  const input = inputOf(allowed, given);
  const folder = await mkdtemp(join(tmpdir(), 'troupe-content-'));
  const remove = () => rm(folder, { recursive: true, force: true });
  try {
    const place = join(folder, 'result');
    const output = await perform(operation, context, { ...input, [field]: place });
    return { output, result: readAndRemove(place, kind === 'results', remove) };
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
