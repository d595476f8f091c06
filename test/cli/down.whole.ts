import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { shell } from './support/troupe.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'troupe-claim-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

it('`troupe down` ends the server of a home that was started in the background, and says so', async () => {
  const at = shell();
  const nothing = await at.run(['down']);
  expect([nothing.code, nothing.out]).toEqual([
    0,
    expect.stringMatching(/^No `troupe up` runs on the home .* for project troupe\.\n$/),
  ]);
  const up = at.start(['up', '--port', '0', '--json']);
  const { url } = JSON.parse((await up.waitForOutput(/\}\n/)).split('\n').find((line) => line.startsWith('{'))!);
  const down = await at.run(['down', '--json']);
  expect([down.code, JSON.parse(down.out)]).toMatchObject([0, { project: 'troupe', pid: up.child.pid }]);
  expect(await up.ended).toMatchObject({ code: 0, err: expect.stringContaining('`troupe down`') });
  await expect(fetch(`${url}/healthz`)).rejects.toThrow();
  expect(JSON.parse((await at.run(['down', '--json'])).out)).toMatchObject({ pid: null });
  await at.remove();
}, 300_000);
