/** docs/operations.md as an operator follows it: its `sh` blocks as printed, in order, beside a `troupe up` in a fresh home. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { removeFolder } from './support/remove-folder.ts';

const ROOT = join(import.meta.dirname, '..');
const page = readFileSync(join(ROOT, 'docs/operations.md'), 'utf8');
const blocks = [...page.matchAll(/```sh\n([\s\S]*?)```/g)].map(([, text]) => text!.trim());

describe('docs/operations.md', () => {
  let folder: string;
  let up: ChildProcess;
  let output = '';
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'troupe-operations-'));
    mkdirSync(join(folder, 'bin'));
    writeFileSync(join(folder, 'bin/npx'), `#!/bin/sh\nshift\nexec node ${ROOT}/bin/troupe.js "$@"\n`);
    chmodSync(join(folder, 'bin/npx'), 0o755);
  });
  afterAll(async () => {
    if (up?.exitCode === null) {
      const ended = new Promise((resolve) => up.once('close', resolve));
      up.kill('SIGTERM');
      await ended;
    }
    removeFolder(folder);
  });
  const env = (): NodeJS.ProcessEnv => {
    const { PATH = '', HOME = '' } = process.env;
    // What the reader puts in.
    const own = { REQUEST_ID: 'Troupe answers' };
    return { PATH: `${join(folder, 'bin')}:${PATH}`, HOME, NO_COLOR: '1', TROUPE_PORT: '0', ...own };
  };

  it('begins with `troupe up`', async () => {
    expect(blocks[0]).toBe('npx troupe up --metrics-port 9100');
    up = spawn('sh', ['-c', `exec ${blocks[0]!.replace('9100', '0')}`], { cwd: folder, env: env() });
    up.stderr!.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
    await expect.poll(() => output, { timeout: 120_000 }).toContain('Troupe is up');
  }, 150_000);

  const address = () => /Troupe is up: (http:\/\/[\d.:]+)/.exec(output)![1]!;
  const metrics = () => /Metrics of all roles at (http:\/\/[\d.:]+)/.exec(output)![1]!;

  it('has the metrics of every role and of the database at one port', async () => {
    const text = async () => (await fetch(`${metrics()}/metrics`)).text();
    for (const role of ['serve', 'project', 'judge', 'work'])
      await expect.poll(text, { timeout: 60_000 }).toMatch(new RegExp(`^troupe_role_up\\{role="${role}"\\} 1$`, 'm'));
    const read = await text();
    expect(read).toMatch(/^troupe_database_up 1$/m);
    expect(read.match(/^process_cpu_seconds_total\{role="\w+"\}/gm)).toHaveLength(4);
    expect(read.match(/^# TYPE process_cpu_seconds_total /gm)).toHaveLength(1);
  }, 150_000);

  it.each(blocks.slice(1))(
    '%s',
    async (block) => {
      const text = block.replaceAll('http://127.0.0.1:7717', address()).replaceAll('http://127.0.0.1:9100', metrics());
      const { stdout } = await promisify(execFile)('sh', ['-ec', text], { cwd: folder, env: env() });
      expect(stdout).not.toBe('');
    },
    120_000,
  );

  it('leaves a backup and a restored home', () => {
    expect(existsSync(join(folder, 'troupe.tar.gz'))).toBe(true);
    expect(existsSync(join(folder, 'restored/data'))).toBe(true);
  });
});
