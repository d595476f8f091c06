/**
 * Proof that plans run from start to end with all processes that they need: the tests `*.plans.ts`, which start the API, the workers and
 * sampling processes, and wait for rollouts, trainings, canaries and watches.
 */
import { join } from 'node:path';
import type { Outcome, Proof, Setting } from './proof.ts';
import { runTests } from './test-run.ts';

/** Fewer would mean that some were not found. */
const LEAST = 20;

export const proof: Proof = {
  name: 'plans-run-whole',
  needs: [],
  async run({ say }: Setting): Promise<Outcome> {
    const root = join(import.meta.dirname, '..');
    const { passed, failed } = await runTests(root, ['--config', 'vitest.proofs.config.ts', '.plans.ts']);
    const again = 'npx vitest run --config vitest.proofs.config.ts .plans.ts';
    const lines = [
      ...passed.map((title) => `ok  ${title}`),
      ...failed.map(({ title, why }) => `NOT OK  ${title}: ${why}; see ${again}`),
    ];
    for (const line of lines) say(line);
    return { ok: failed.length === 0 && passed.length >= LEAST, lines };
  },
};
