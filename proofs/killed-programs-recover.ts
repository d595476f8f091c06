/**
 * Proof that the embedded server and the commands come through being killed, starved and pointed at what is not there: the tests
 * `*.kills.ts`, which wait for processes to die, and `*.whole.ts`, which wait for long programs: too long for every run of the tests.
 */
import { join } from 'node:path';
import type { Outcome, Proof, Setting } from './proof.ts';
import { runTests } from './test-run.ts';

/** Fewer would mean that some were not found. */
const LEAST = 43;

export const proof: Proof = {
  name: 'killed-programs-recover',
  needs: [],
  async run({ say }: Setting): Promise<Outcome> {
    const root = join(import.meta.dirname, '..');
    const { passed, failed } = await runTests(root, ['--config', 'vitest.proofs.config.ts', '.kills.ts', '.whole.ts']);
    const lines = [
      ...passed.map((title) => `ok  ${title}`),
      ...failed.map(
        ({ title, why }) => `NOT OK  ${title}: ${why}; see npx vitest run --config vitest.proofs.config.ts`,
      ),
    ];
    for (const line of lines) say(line);
    return { ok: failed.length === 0 && passed.length >= LEAST, lines };
  },
};
