/** Operations that take or give bytes, in place of a file or folder that whoever asks names. */
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { TroupeError } from '../../errors.ts';
import { mapStrings } from '../../ingest/events/text.ts';
import { archiveEnd, entryHead, padding } from '../../store/server/backup/tar.ts';
import type { ChangeContext, Operation } from './operation.ts';
import { inputOf, perform } from './perform.ts';
import { contentField, resultField } from './route.ts';

/** Of a body that is kept on the disk while an operation reads it. */
const MOST_BYTES = 4 * 1024 ** 3;

type Bytes = AsyncIterable<Uint8Array>;

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
    return { output: within(folder, output), result: readAndRemove(place, kind === 'results', remove) };
  } catch (error) {
    await remove();
    throw error;
  }
}

/** Performs it on a temporary file with this content, which its output calls `content`. */
export async function performOnBytes(
  operation: Operation,
  context: ChangeContext,
  { allowed, given, content }: { readonly allowed: Operation; readonly given: unknown; readonly content: Bytes },
): Promise<unknown> {
  const input = inputOf(allowed, given);
  const folder = await mkdtemp(join(tmpdir(), 'troupe-content-'));
  try {
    await pipeline(bounded(content), createWriteStream(join(folder, 'content'), { mode: 0o600 }));
    const output = await perform(operation, context, {
      ...input,
      [contentField(operation)!]: [join(folder, 'content')],
    });
    return within(folder, output);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The output without the path of the temporary folder, which is gone once the answer is sent. */
const within = (folder: string, output: unknown): unknown =>
  mapStrings(output, (text) => text.replaceAll(`${folder}/`, ''));

async function* bounded(content: Bytes): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  for await (const part of content) {
    bytes += part.length;
    if (bytes > MOST_BYTES)
      throw new TroupeError('too_large', `The body has more than ${MOST_BYTES} bytes; send it in parts.`);
    yield part;
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
