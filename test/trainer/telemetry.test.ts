/** Nothing is sent home, by the runtime neither: with telemetry off, it keeps no identifier and no queue of what to send. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, it } from 'vitest';
import { builtProgram } from '../cli/support/built.ts';

const graph = (file: string): string =>
  JSON.stringify(pathToFileURL(join(dirname(builtProgram), 'trainer/tensor', file)).href);

it('ONNX Runtime leaves nothing in the home of the user, as it does where it collects what it sends', () => {
  const home = mkdtempSync(join(tmpdir(), 'troupe-no-telemetry-'));
  // Without CI, where the runtime collects nothing anyway.
  const env = { PATH: process.env.PATH ?? '', HOME: home, TMPDIR: home };
  const program = `
    const [{ openSession }, o] = await Promise.all([import(${graph('session.js')}), import(${graph('operations.js')})]);
    await (await openSession({ y: o.exp(o.input('x', ['N'])) })).close();
    console.log('opened');`;
  const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '--eval', program], {
    env,
    encoding: 'utf8',
  });
  expect([stdout.trim(), stderr]).toEqual(['opened', '']);
  expect(readdirSync(home, { recursive: true })).toEqual([]);
  rmSync(home, { recursive: true });
});
