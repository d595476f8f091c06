/** docs/start.md as a new user follows it: its blocks as printed, in order, in a fresh home; `text` blocks are what the block before promises. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { removeFolder } from './support/remove-folder.ts';

const ROOT = join(import.meta.dirname, '..');
const page = readFileSync(join(ROOT, 'docs/start.md'), 'utf8');
/** `file` is the name that a block is saved under, as the sentence before it says. */
const blocks = [...page.matchAll(/```(\w+)\n([\s\S]*?)```/g)].map(({ 1: kind, 2: text, index }) => ({
  kind: kind!,
  text: text!,
  file: /Save this\s+as `([\w.]+)`:\s*$/.exec(page.slice(0, index))?.[1] ?? null,
}));
let checkout: string;
let up: ChildProcess | null = null;
let address = '';
let output = '';

beforeAll(() => {
  checkout = mkdtempSync(join(tmpdir(), 'troupe-start-'));
  for (const name of ['examples', 'tsconfig.json']) symlinkSync(join(ROOT, name), join(checkout, name));
  writeFileSync(join(checkout, 'package.json'), '{"type":"module"}');
  mkdirSync(join(checkout, 'node_modules'));
  symlinkSync(ROOT, join(checkout, 'node_modules/troupe'));
  mkdirSync(join(checkout, 'bin'));
  // npx itself takes seconds to find what it starts.
  const loader = createRequire(import.meta.url).resolve('tsx');
  const npx = `#!/bin/sh\nname=$1\nshift\ncase $name in\ntroupe) exec node ${ROOT}/bin/troupe.js "$@";;\ntsx) exec node --import ${loader} "$@";;\nesac\nexit 127\n`;
  writeFileSync(join(checkout, 'bin/npx'), npx);
  chmodSync(join(checkout, 'bin/npx'), 0o755);
});
afterAll(async () => {
  if (up) {
    const ended = new Promise((resolve) => up!.once('close', resolve));
    up.kill('SIGTERM');
    await ended;
  }
  removeFolder(checkout);
});

const environment = (): NodeJS.ProcessEnv => {
  const { PATH = '', HOME = '' } = process.env;
  return { PATH: `${join(checkout, 'bin')}:${PATH}`, HOME, NO_COLOR: '1', TROUPE_PORT: '0' };
};
const here = (text: string): string => (address === '' ? text : text.replaceAll('http://127.0.0.1:7717', address));

async function shell(text: string): Promise<string> {
  if (text.trim() === 'npx troupe up') return startUp();
  const options = { cwd: checkout, env: environment(), maxBuffer: 2 ** 26 };
  const { stdout } = await promisify(execFile)('sh', ['-ec', here(text)], options);
  return stdout;
}

/** Everything runs until the end of the page; its projector brings events to the tables. */
function startUp(): Promise<string> {
  const child = spawn('sh', ['-c', 'exec npx troupe up'], { cwd: checkout, env: environment() });
  up = child;
  return new Promise((resolve, reject) => {
    let words = '';
    child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
      words += chunk;
      address = /(http:\/\/127\.0\.0\.1:\d+)\//.exec(words)?.[1] ?? '';
      if (address !== '') resolve('');
    });
    child.once('close', () => reject(new Error(words)));
  });
}

const flat = (text: string): string => text.replace(/[ \t]+/g, ' ');

describe('docs/start.md, block by block', () => {
  it('adds no schedule under a name that it has added before', () => {
    const names = [...page.matchAll(/troupe schedule add (\S+)/g)].map(([, name]) => name);
    expect(names.length).toBeGreaterThan(1);
    expect(new Set(names).size).toBe(names.length);
  });

  it('has blocks of every kind', () => {
    expect(new Set(blocks.map(({ kind }) => kind))).toEqual(new Set(['sh', 'text', 'yaml', 'ts']));
  });

  it.each(blocks.map((block, i) => ({ ...block, i })))(
    '$i, $kind',
    { timeout: 600_000 },
    async ({ kind, text, file, i }) => {
      if (file !== null) writeFileSync(join(checkout, file), here(text));
      else if (kind === 'sh') output = await shell(text);
      else {
        // The log is ahead of the tables for a moment: what is asked is asked again.
        const again = blocks[i - 1]!.text.split('\n').filter((line) => /^npx troupe (show|sql|episodes)/.test(line));
        const promised = () =>
          flat(text)
            .trim()
            .split('\n')
            .filter((line) => !flat(output).includes(line));
        if (up)
          await expect
            .poll(
              async () => {
                output = await shell(again.join('\n'));
                return promised();
              },
              { timeout: 300_000, interval: 1000 },
            )
            .toEqual([]);
        expect(promised()).toEqual([]);
      }
    },
  );
});
