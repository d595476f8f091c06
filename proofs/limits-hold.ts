/** Proof that what hostile input costs, and how long waiting takes, stays below its limits: every test that uses `expectBelow`, alone on the machine. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { MEASURED } from '../test/support/measured.ts';
import type { Proof } from './proof.ts';
import { runTests } from './test-run.ts';

const CHECKOUT = join(import.meta.dirname, '..');

/** The test files that measure, by their import. */
const measuring = (): readonly string[] =>
  readdirSync(join(CHECKOUT, 'test'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.test.ts'))
    .map((name) => join('test', name))
    .filter((name) => readFileSync(join(CHECKOUT, name), 'utf8').includes('support/measured.ts'));

export const proof: Proof = {
  name: 'limits-hold',
  needs: [],
  async run({ say }) {
    process.env[MEASURED] = '1';
    const files = measuring();
    const { passed, failed } = await runTests(CHECKOUT, [...files, '--maxWorkers=1']);
    const lines = [
      `${files[0] ? 'ok' : 'NOT OK'}  ${files.length} files measure what they do`,
      `${failed.length === 0 ? 'ok' : 'NOT OK'}  ${passed.length} tests keep their limits`,
      ...failed.map(({ title, why }) => `NOT OK  ${title}: ${why}`),
    ];
    for (const line of lines) say(line);
    return { ok: failed.length === 0 && files.length > 0, lines };
  },
};
