import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { makeFolder } from '../../ingest/files/make-folder.ts';
import { openHome } from '../../store/server/home.ts';

const folder = mkdtempSync(join(tmpdir(), 'troupe-folders-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

it('makes a folder with those above it, says which came first, and leaves what is there', () => {
  expect(makeFolder(join(folder, 'a/b/c'), 0o700)).toBe(join(folder, 'a'));
  expect(statSync(join(folder, 'a/b/c')).mode & 0o777).toBe(0o700);
  expect(makeFolder(join(folder, 'a/b/c'))).toBeUndefined();
  writeFileSync(join(folder, 'file'), '');
  expect(() => makeFolder(join(folder, 'file'))).toThrow(/EEXIST/);
  expect(() => makeFolder(join(folder, 'file/below'))).toThrow();
});

it.skipIf(!existsSync('/proc/self'))('a home where no folder can be made is refused with a sentence, at once', () => {
  expect(() => openHome('/proc/nope/home')).toThrow(/^Cannot write the home \/proc\/nope\/home: no folder can be made/);
});
