/** Tests run by their own runner, from a proof. */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import type { Proof } from './proof.ts';

export type Failed = {
  readonly title: string;
  /** The first line of the failure. */
  readonly why: string;
};
export type Tried = { readonly passed: readonly string[]; readonly failed: readonly Failed[] };

/** Runs vitest in a checkout with these arguments. @throws Error where it did not come to run any test */
export function runTests(checkout: string, args: readonly string[]): Promise<Tried> {
  return new Promise((resolve, reject) => {
    const program = ['node_modules/vitest/vitest.mjs', 'run', ...args, '--reporter=json'];
    const child = spawn(process.execPath, program, { cwd: checkout, stdio: ['ignore', 'pipe', 'pipe'] });
    let [out, errors] = ['', ''];
    child.stdout.setEncoding('utf8').on('data', (text) => {
      out += text;
    });
    child.stderr.setEncoding('utf8').on('data', (text) => {
      errors = `${errors}${text}`.slice(-2000);
    });
    child.once('error', reject);
    child.once('close', () => {
      const from = out.indexOf('{"numTotalTestSuites"');
      if (from < 0) return reject(new Error(`The tests did not run: ${errors}`));
      const { testResults } = JSON.parse(out.slice(from)) as {
        testResults: { assertionResults: { status: string; fullName: string; failureMessages: string[] }[] }[];
      };
      const all = testResults.flatMap(({ assertionResults }) => assertionResults);
      const ended = (wanted: string) => all.filter(({ status }) => status === wanted);
      resolve({
        passed: ended('passed').map(({ fullName }) => fullName),
        failed: ended('failed').map(({ fullName, failureMessages: [message = ''] }) => ({
          title: fullName,
          why: message.split('\n')[0]!,
        })),
      });
    });
  });
}

/** A proof that is the tests of these endings, at least so many: fewer would mean that some were not found. */
export const proofOfTests = (name: string, endings: readonly string[], least: number): Proof => ({
  name,
  needs: [],
  async run({ say }) {
    const chosen = ['--config', 'vitest.proofs.config.ts', ...endings];
    const { passed, failed } = await runTests(join(import.meta.dirname, '..'), chosen);
    const lines = [
      ...passed.map((title) => `ok  ${title}`),
      ...failed.map(({ title, why }) => `NOT OK  ${title}: ${why}; see npx vitest run ${chosen.join(' ')}`),
    ];
    for (const line of lines) say(line);
    return { ok: failed.length === 0 && passed.length >= least, lines };
  },
});
