/** What `import` of a bomb holds in memory, as a process of its own. Inflating it takes seconds, so only the proof of limits runs it. */
import { execFile } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { expect, it } from 'vitest';
import { builtProgram } from '../cli/support/built.ts';
import { freshDatabase } from '../support/database.ts';
import { expectBelow, MEASURED } from '../support/measured.ts';

/** Says at its end how many KiB the process held at most. */
const PEAK = `data:text/javascript,process.on('exit',()=>console.error('peak:'+process.resourceUsage().maxRSS))`;

it.runIf(process.env[MEASURED]).each([
  // Protobuf begins so; and a line that never ends.
  ['a line break and zeros', 10, 0],
  ['one line of JSON', 0x22, 0x61],
])(
  'a file of 1.5 MB that inflates to 1.5 GB, %s, is refused within bounded memory',
  async (_, first, then) => {
    const database = await freshDatabase();
    const folder = await mkdtemp(join(tmpdir(), 'troupe-bomb-'));
    try {
      const path = join(folder, 'bomb.gz');
      const piece = Buffer.alloc(1024 * 1024, then);
      await pipeline(
        Readable.from([Buffer.from([first]), ...Array<Buffer>(1500).fill(piece)]),
        createGzip({ level: 9 }),
        createWriteStream(path),
      );
      expect((await stat(path)).size).toBeLessThan(1_600_000);
      const { [MEASURED]: _measured, ...rest } = process.env;
      const env = { ...rest, DATABASE_URL: database.url, NODE_OPTIONS: `--import=${PEAK}` };
      const args = [builtProgram, 'import', path, '--home', join(folder, 'home'), '--json'];
      const { out, err } = await new Promise<{ out: string; err: string }>((done) =>
        execFile(process.execPath, args, { env }, (_error, out, err) => done({ out, err })),
      );
      expect(JSON.parse(out)).toMatchObject({
        files: 0,
        events: { accepted: 0, rejected: 1 },
        errors: [{ code: 'unknown_format' }],
      });
      const [, peak] = /^peak:(\d+)$/m.exec(err) ?? [];
      expect(Number(peak), err).toBeGreaterThan(0);
      expectBelow(Number(peak) * 1024, 512 * 1024 * 1024);
    } finally {
      await database.close();
      await rm(folder, { recursive: true });
    }
  },
  300_000,
);
