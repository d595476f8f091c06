/** `bin/troupe.js` in a checkout of a few files: what it builds, when, and beside others that build the same. */
import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, it } from 'vitest';

const ROOT = join(import.meta.dirname, '..');
const folders: string[] = JSON.parse(readFileSync(join(ROOT, 'tsconfig.build.json'), 'utf8')).include.slice(1);
/** Not written out where it is imported: it is no file of ours. */
const MORE = './store/more.ts';
let checkout: string;

beforeEach(() => {
  checkout = mkdtempSync(join(tmpdir(), 'troupe-bin-'));
  for (const folder of [...folders, 'api/page']) mkdirSync(join(checkout, folder));
  cpSync(join(ROOT, 'bin'), join(checkout, 'bin'), { recursive: true });
  symlinkSync(join(ROOT, 'node_modules'), join(checkout, 'node_modules'));
  write('package.json', '{ "type": "module" }');
  write('api/page/page.css', 'a {}');
  write(
    'cli.ts',
    `import { words } from './cli/words.ts';\nconst { more } = await import('${MORE}');\nconsole.log(words + more);`,
  );
  write(
    'cli/words.ts',
    `import { sql } from 'kysely';\nimport { Type } from 'typebox';\nexport const words: string = 'one ' + Type.String().type + (sql ? '' : ' and no SQL');`,
  );
  write('store/more.ts', `export const more: string = ' two';`);
});
afterEach(() => rmSync(checkout, { recursive: true }));

const write = (path: string, text: string): void => writeFileSync(join(checkout, path), text);
const troupe = async (): Promise<string> =>
  (await promisify(execFile)(process.execPath, [join(checkout, 'bin/troupe.js')])).stdout.trim();

it('builds what is missing, follows a source that changed, and leaves no drafts', async () => {
  expect(await troupe()).toBe('one string two');
  write('store/more.ts', `export const more = ' three';`);
  expect(await troupe()).toBe('one string three');
  const files = readdirSync(join(checkout, 'dist'), { recursive: true }).map(String);
  expect(files).toContain(join('api', 'page', 'page.css'));
  expect(files.filter((name) => /\.\d+$/.test(name))).toEqual([]);
});

it('commands that start at once all run, with nothing built and after a change', async () => {
  const at = () => Promise.all(Array.from({ length: 4 }, troupe));
  expect(new Set(await at())).toEqual(new Set(['one string two']));
  write('cli/words.ts', `export const words = 'zero';`);
  expect(new Set(await at())).toEqual(new Set(['zero two']));
});

it('half a build, as a killed command leaves it, is completed', async () => {
  await troupe();
  rmSync(join(checkout, 'dist/store'), { recursive: true });
  for (const name of ['typebox', 'kysely']) rmSync(join(checkout, 'dist', name, 'built-from.json'));
  write('dist/cli/words.js.1', 'half');
  expect(await troupe()).toBe('one string two');
});

it('without sources it runs what is there', async () => {
  await troupe();
  for (const path of [...folders, 'cli.ts']) rmSync(join(checkout, path), { recursive: true });
  expect(await troupe()).toBe('one string two');
});

it('without the packages that build it says which command installs them', async () => {
  rmSync(join(checkout, 'node_modules'));
  await expect(troupe()).rejects.toThrow('Run: npm ci');
});

it('a package that was packed before it was built says in one line how it is packed', async () => {
  for (const path of [...folders, 'cli.ts']) rmSync(join(checkout, path), { recursive: true });
  const stderr = await troupe().then(
    () => '',
    (error) => error.stderr as string,
  );
  expect(stderr.trim().split('\n')).toEqual([expect.stringMatching(/npm run build && npm pack$/)]);
});
