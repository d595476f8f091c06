/** The benchmarks from their start to their figures: what they print, and what they do without a peer. No time is judged. */
import { afterAll, describe, expect, it } from 'vitest';
import { benchProgram } from './support/program.ts';

const { bench, remove } = benchProgram();
afterAll(remove);

describe('A benchmark without its peer', () => {
  it.each(['train', 'sample'])('%s measures ours alone, says how to get the peer and exits 0', (name) => {
    const { status, stdout, stderr } = bench(name, '--sizes', '0.5m', '--rounds', '5', '--steps', '1', '--json');
    expect(stderr).toMatch(/round 1, \d of 5 undisturbed: ours/);
    expect(status).toBe(0);
    const report = JSON.parse(stdout);
    expect(report).toMatchObject({ name, machine: { node: process.version } });
    expect(report.machine.cores).toBeGreaterThan(0);
    for (const result of report.results) {
      expect(result).toMatchObject({
        case: expect.stringMatching(/^0\.5m.*1 thread$/),
        ours: { median: expect.any(Number), spread: [expect.any(Number), expect.any(Number)], unit: 'tokens/s' },
        other: null,
        ratio: null,
        cpu_seconds: { ours: expect.any(Number), other: null },
        rounds: 5,
      });
      expect(result.skipped).toMatch(/cannot be run .*say: python3 -m venv .*bench\/requirements\.txt/);
    }
    expect(report.results).toHaveLength(name === 'train' ? 1 : 2);
  });
});

describe('A benchmark with a ceiling of its own', () => {
  it('checkpoint compares what it reads back before it says a ratio', () => {
    const { status, stdout } = bench('checkpoint', '--sizes', '0.5m', '--rounds', '5', '--json', '--quiet');
    expect(status).toBe(0);
    const [result] = JSON.parse(stdout).results;
    expect(result).toMatchObject({
      ours: { unit: 'MB/s' },
      other: { what: expect.any(String), median: expect.any(Number) },
      ratio: { median: expect.any(Number), spread: [expect.any(Number), expect.any(Number)] },
      cpu_seconds: { ours: expect.any(Number), other: expect.any(Number) },
      outputs: 'read back as saved, bit for bit',
    });
  });
});
