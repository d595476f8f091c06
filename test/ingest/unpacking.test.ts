/** Whatever is unpacked has a bound: a megabyte may hold gigabytes. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { openRecordFile } from '../../ingest/files/read-file.ts';

/** Every file that unpacks, and what bounds it. */
const PLACES: Readonly<Record<string, string>> = {
  'api/http/body.ts': 'maxOutputLength',
  'api/gateway/upstream/capture.ts': 'maxOutputLength',
  'ingest/files/gunzip.ts': 'yields pieces as they come',
  'ingest/log/batch-limit.ts': 'bytes of a batch',
  'ingest/log/lz4.ts': 'most',
  'ingest/log/snappy.ts': 'most',
  'ingest/files/zip.ts': 'the size that the list names, within the limit of a member',
  'ingest/log/zstd.ts': 'yields pieces as they come, or fills a buffer of a known size',
  'store/server/backup/restore.ts':
    'MOST_UNPACKED of all tables and files together; manifest, seal and names have bounds of their own',
  'store/datasets/arrow.ts': 'files that the manifest of a dataset names by hash',
  'store/datasets/lineage-lines.ts': 'yields lines as they come',
  'store/datasets/read.ts': 'maxOutputLength',
};

const UNPACKS =
  /import \{[^}]*\b(?:create)?(?:g?unzip|inflate|brotliDecompress)\w*[^}]*\} from 'node:zlib'|from 'fzstd'|unzstdEach\(\[bytes|function (?:fromLz4|unsnappy)|decode: fromLz4/i;

describe('What is unpacked', () => {
  it('is unpacked in no other place than these, each with its bound', () => {
    const sources = ['api', 'cli', 'ingest', 'store', 'trainer'].flatMap((folder) =>
      readdirSync(folder, { recursive: true, encoding: 'utf8' })
        .filter((name) => name.endsWith('.ts'))
        .map((name) => `${folder}/${name}`),
    );
    const found = sources.filter((path) => UNPACKS.test(readFileSync(path, 'utf8')));
    expect(found.sort()).toEqual(Object.keys(PLACES).sort());
  });

  it('is held as protobuf only as far as a document may be long, and refused beyond it', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'troupe-unpacking-'));
    try {
      const path = join(folder, 'spans.gz');
      // A request of OTLP: groups of spans, each with one scope of one span that has a trace, an id and a name.
      const field = (number: number, bytes: Buffer) =>
        Buffer.concat([Buffer.from([8 * number + 2, bytes.length]), bytes]);
      const span = [field(1, Buffer.alloc(16, 1)), field(2, Buffer.alloc(8, 2)), field(5, Buffer.from('chat'))];
      const group = field(1, field(2, field(2, Buffer.concat(span))));
      writeFileSync(path, gzipSync(Buffer.concat(Array.from({ length: 5000 }, () => group))));
      expect((await openRecordFile(path)).shape).toBe('document');
      const { records } = await openRecordFile(path, 100_000);
      const refusals: (string | undefined)[] = [];
      for await (const { refusal } of records) refusals.push(refusal?.code);
      expect(new Set(refusals)).toEqual(new Set(['bad_json']));
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
