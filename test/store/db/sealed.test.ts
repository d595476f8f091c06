import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { sealedFile } from '../../../store/server/sealed.ts';

const folder = mkdtempSync(join(tmpdir(), 'troupe-sealed-'));
const path = join(folder, 'sealed', 'facts');
afterAll(() => rmSync(folder, { recursive: true, force: true }));

it('what was written is read again, by whoever has the same secret, and the file is for this user only', () => {
  const file = sealedFile<{ readonly n: number }>(path, () => 'secret');
  expect(file.read()).toBeNull();
  file.write({ n: 1 });
  file.write({ n: 2 });
  expect(sealedFile(path, () => 'secret').read()).toEqual({ n: 2 });
  expect(statSync(path).mode & 0o777).toBe(0o600);
});

it('another secret, a changed byte and half a file read as nothing', () => {
  const whole = readFileSync(path, 'utf8');
  expect(sealedFile(path, () => 'other').read()).toBeNull();
  expect(sealedFile(path, () => null).read()).toBeNull();
  for (const text of [whole.replace('{"n":2}', '{"n":3}'), whole.slice(0, 40), '', '\n\n']) {
    writeFileSync(path, text);
    expect(sealedFile(path, () => 'secret').read()).toBeNull();
  }
});
