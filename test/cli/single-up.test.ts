import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { claimHome, endUp } from '../../cli/processes/single-up.ts';
import { homeAt } from '../../store/server/home.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'troupe-claim-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

it.each([
  ['a short path', ''],
  ['a path too long for a socket', 'x'.repeat(120)],
])('one `troupe up` at a time has a home at %s, by a socket that only its owner can reach', async (_, below) => {
  const home = homeAt(join(folder, below, 'home'));
  mkdirSync(home.run, { recursive: true, mode: 0o700 });
  const open = () => readdirSync(tmpdir()).filter((name) => name.endsWith('.sock'));
  const before = open();
  const release = await claimHome(home, 'p', () => {});
  expect(existsSync(join(home.run, 'up-p.sock'))).toBe(below === '');
  expect(open()).toEqual(before);
  await expect(claimHome(home, 'p', () => {})).rejects.toMatchObject({ code: 'conflict' });
  const other = await claimHome(home, 'q', () => {});
  release();
  other();
  (await claimHome(home, 'p', () => {}))();
});

it('who asks the `troupe up` of a home and project to end waits for its process, and finds none where none runs', async () => {
  const home = homeAt(join(folder, 'home'));
  mkdirSync(home.run, { recursive: true, mode: 0o700 });
  expect(await endUp(home, 'p', 1000)).toBeNull();
  let asked = 0;
  const release = await claimHome(home, 'p', () => asked++);
  // It is told, and this process, which holds the home, does not end.
  await expect(endUp(home, 'p', 300)).rejects.toMatchObject({
    code: 'busy',
    message: expect.stringMatching(/process \d+/),
  });
  expect(asked).toBe(1);
  expect(await endUp(home, 'q', 1000)).toBeNull();
  // Looking whether it is there ends nothing.
  await expect(claimHome(home, 'p', () => {})).rejects.toMatchObject({ code: 'conflict' });
  expect(asked).toBe(1);
  release();
});
