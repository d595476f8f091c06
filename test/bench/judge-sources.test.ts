/** Our side of the comparison with published code answers with what the method says. No time is judged. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startOurs, type Worker } from '../../bench/worker.ts';

const folder = mkdtempSync(join(tmpdir(), 'troupe-judge-sources-'));
const file = join(folder, 'rewards');
let worker: Worker;
beforeAll(() => {
  // Vitest's own loader is not the program's.
  const loader = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href;
  worker = startOurs('judge-sources.ts', { env: { NODE_OPTIONS: `--import ${loader}` } });
});
afterAll(async () => {
  await worker.close();
  rmSync(folder, { recursive: true });
});

const judged = async (name: string, values: readonly number[], length = 2) => {
  writeFileSync(file, new Uint8Array(Float64Array.from(values).buffer));
  type Answer = { readonly values: number[]; readonly seconds: number; readonly checked: { readonly seconds: number } };
  return worker.ask<Answer>({ do: 'judge', case: name, file, group: 2, length });
};

it('rows stand in groups one after the other', async () => {
  const { values, seconds, checked } = await judged('rloo', [1, 0, 3, 1]);
  expect(values).toEqual([1, -1, 2, -2]);
  expect(seconds).toBeGreaterThan(0);
  expect(checked.seconds).toBeGreaterThan(0);
  expect((await judged('at_grpo', [1, 0, 3, 3])).values).toEqual([
    expect.closeTo(Math.SQRT1_2, 5),
    expect.closeTo(-Math.SQRT1_2, 5),
    0,
    0,
  ]);
});

it('two agents act by turns, and each is compared with itself', async () => {
  expect((await judged('drmas', [1, 5, 0, 5])).values).toEqual([
    expect.closeTo(Math.SQRT1_2, 5),
    0,
    expect.closeTo(-Math.SQRT1_2, 5),
    0,
  ]);
});

it('a sequence is its rewards and then its values, and is judged alone', async () => {
  expect((await judged('gae', [0, 1, 0.5, 0.25, 1, 1, 0, 0])).values).toEqual([
    expect.closeTo(0.5 + (0.25 - 0.5) + 0.95 * 0.75, 9),
    1,
    expect.closeTo(1.95, 9),
    1,
  ]);
});
