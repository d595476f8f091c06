/** The benchmarks over logs and tables, on sizes that say nothing of speed: both sides do the work, and their rows are compared. */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, describe, expect, it } from 'vitest';
import { compiledProgram } from '../support/program.ts';

const empty = mkdtempSync(join(tmpdir(), 'troupe-bench-tables-'));
afterAll(() => rmSync(empty, { recursive: true }));

/** A report made where there is neither Kafka nor a Python with peers. */
async function bench(...args: string[]) {
  const env = {
    ...process.env,
    XDG_CACHE_HOME: empty,
    TROUPE_KAFKA_JARS: empty,
    TROUPE_BENCH_PYTHON: join(empty, 'python'),
  };
  const program = await compiledProgram(join(import.meta.dirname, '../../bench/run.ts'));
  const child = spawn(process.execPath, [program, ...args, '--rounds', '5', '--json', '--quiet'], {
    env,
  });
  const [out, errors] = await Promise.all([text(child.stdout), text(child.stderr)]);
  expect(errors).toBe('');
  return JSON.parse(out).results;
}

describe('A benchmark of log and tables', () => {
  it('export writes every row, and says how to get the peer that is missing', { timeout: 120_000 }, async () => {
    const exported = await bench('export', '--sizes', '600');
    expect(exported).toHaveLength(4);
    for (const result of exported)
      expect(result).toMatchObject({ ours: { unit: 'rows/s' }, skipped: expect.stringMatching(/cannot be run/) });
  });
});
