/** P58: a randomised test that fails prints its seed and the one line that replays it. `TROUPE_SEED` is that seed. */
import { relative } from 'node:path';
import fc from 'fast-check';
import { expect } from 'vitest';

const seed = process.env.TROUPE_SEED;

/** The command that runs the test of this name again with the same random input. */
export function replayCommand(
  failed: { readonly seed: number },
  state: { testPath?: string; currentTestName?: string },
): string {
  const file = state.testPath ? relative(process.cwd(), state.testPath) : '';
  const name = (state.currentTestName ?? '').split(' > ').at(-1) ?? '';
  return `TROUPE_SEED=${failed.seed} npx vitest run ${file} -t ${JSON.stringify(name)}`;
}

const report = (out: fc.RunDetails<unknown>): void => {
  if (!out.failed) return;
  const message = fc.defaultReportMessage(out as never);
  throw new Error(`${message}\n\nReplay it: ${replayCommand(out, expect.getState())}`, { cause: out.errorInstance });
};

fc.configureGlobal({
  ...(seed === undefined ? {} : { seed: Number(seed) }),
  reporter: report,
} as never);
