/**
 * Proof that the tests of ingest can fail: in a copy of the checkout one promise after the other is broken by a small change, and the
 * test that holds it must go red; without a change all of these tests are green.
 */
import { cpSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { checklist, type Outcome, type Proof, type Setting } from './proof.ts';
import { BUGS } from './seeded-bugs.ts';
import { type Failed, runTests, type Tried } from './test-run.ts';

export const proof: Proof = {
  name: 'tests-catch-seeded-bugs',
  needs: [],
  async run({ short, scratch, say }: Setting): Promise<Outcome> {
    const copy = join(scratch, 'checkout');
    const root = join(import.meta.dirname, '..');
    cpSync(root, copy, { recursive: true, filter: (path) => !SKIPPED.test(relative(root, path)) });
    symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
    // The first three are the short form.
    const bugs = short ? BUGS.slice(0, 3) : BUGS;
    const { lines, check: tell, passed } = checklist(say);
    const sound = await tried(
      copy,
      [...new Set(bugs.map(({ caught: [file] }) => file))],
      bugs.map(({ caught: [, title] }) => title),
    );
    tell(
      `without a change ${sound.passed.length} tests pass and ${sound.failed.length} fail`,
      sound.passed.length >= new Set(bugs.map(({ caught }) => caught.join())).size && sound.failed.length === 0,
    );
    for (const { what, file, find, replace, caught } of bugs) {
      const path = join(copy, file);
      const text = readFileSync(path, 'utf8');
      if (text.split(find).length !== 2) {
        tell(`${file} no longer has the one place to break: ${find}`, false);
        continue;
      }
      writeFileSync(
        path,
        text.replace(find, () => replace),
      );
      const began = performance.now();
      const { failed } = await tried(copy, [caught[0]], [caught[1]]);
      writeFileSync(path, text);
      const by = failed.find(({ title }) => title.includes(caught[1]))?.title;
      tell(
        `${what}: caught in ${((performance.now() - began) / 1000).toFixed(0)} s by ${by ?? 'nothing'}`,
        by !== undefined,
      );
    }
    return { ok: passed(), lines };
  },
};

const SKIPPED = /^(node_modules|dist|coverage|\.git|\.troupe)(\/|$)|\/node_modules(\/|$)/;

/** Runs the tests of these files whose titles hold one of these pieces. Those that wait for kills have a configuration of their own. */
async function tried(folder: string, files: readonly string[], titles: readonly string[]): Promise<Tried> {
  const pattern = [...new Set(titles)].map((title) => title.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('|');
  const kills = files.filter((file) => file.endsWith('.kills.ts'));
  const others = files.filter((file) => !kills.includes(file));
  const passed: string[] = [];
  const failed: Failed[] = [];
  for (const args of [others, kills.length > 0 ? ['--config', 'vitest.proofs.config.ts', ...kills] : []]) {
    if (args.length === 0) continue;
    const found = await runTests(folder, [...args, '--retry=0', '-t', pattern]);
    passed.push(...found.passed);
    failed.push(...found.failed);
  }
  return { passed, failed };
}
