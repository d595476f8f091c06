/** The lines of a dataset's lineage one after the other; memory holds a few of them. */
import { createReadStream } from 'node:fs';
import { join } from 'node:path';
import { createGunzip } from 'node:zlib';
import { LINEAGE_FILE, type Lineage } from './lineage.ts';
import type { Manifest } from './manifest.ts';

/** Of a dataset that was opened, so that its file is as it was written. */
export async function* lineageLines(
  directory: string,
  { files }: Pick<Manifest, 'files'>,
): AsyncGenerator<Lineage, void, undefined> {
  // Of a dataset that was frozen before, the file is not compressed.
  const isGzip = files.some(({ name }) => name === LINEAGE_FILE);
  const file = createReadStream(join(directory, isGzip ? LINEAGE_FILE : LINEAGE_FILE.replace('.gz', '')));
  const text = isGzip ? file.pipe(createGunzip()) : file;
  // An interface of readline reads on while nobody takes its lines.
  let rest = '';
  for await (const part of text.setEncoding('utf8')) {
    const lines = (rest + part).split('\n');
    rest = lines.pop()!;
    for (const line of lines) yield JSON.parse(line) as Lineage;
  }
}
