/** The benchmarks as programs: how they refuse, and what they are made of. */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { realLengths } from '../../bench/lengths.ts';
import { batchesOf, parameterCount, SIZES, sizesNamed, stepOperations } from '../../bench/models.ts';
import { runBench } from '../../bench/program.ts';
import { findPython } from '../../bench/python.ts';
import { startOurs } from '../../bench/worker.ts';
import { compiledProgram } from '../support/program.ts';
import { benchProgram, loader } from './support/program.ts';

const { env, empty, remove } = benchProgram();
afterAll(remove);

/** As `bench` is asked, in this process: what it exits with and says. */
async function asked(...args: string[]) {
  const output = { stdout: '', stderr: '' };
  const status = await runBench(args, {
    out: (text) => {
      output.stdout += text;
    },
    err: (text) => {
      output.stderr += text;
    },
  });
  return { status, ...output };
}

describe('What is asked wrongly', () => {
  it.each([
    [['nonsense'], /There is no benchmark nonsense; they are\n {2}train/],
    [[], /Name one benchmark/],
    [['train', '--rounds', '4'], /--rounds should be a whole number from 5/],
    [['train', '--sizes', '7q'], /There is no size "7q"; the sizes are 0\.5m/],
    [['train', '--fast'], /--fast/],
    [['rollout', '--only', 'rounds'], /--only should name some of rollout, round, scheduler, but it names rounds/],
  ])('%j is refused with exit code 2', async (args, message) => {
    const { status, stdout, stderr } = await asked(...args);
    expect(stderr).toMatch(message);
    expect(status).toBe(2);
    expect(stdout).toBe('');
  });

  it('with --json the refusal is the one document', async () => {
    const program = await compiledProgram(join(import.meta.dirname, '../../bench/run.ts'));
    const args = [program, 'train', '--sizes', '7q', '--json'];
    const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', env });
    expect(JSON.parse(stdout)).toMatchObject({ error: { code: 'usage', message: expect.stringContaining('7q') } });
    expect(stderr).toMatch(/^bench: There is no size "7q"/);
    expect(status).toBe(2);
  });
});

describe('The Python of peers', () => {
  it('is the one that is named, and nothing else then', () => {
    const named = join(empty, 'named');
    const found = findPython(['torch'], { TROUPE_BENCH_PYTHON: named, XDG_CACHE_HOME: empty });
    expect(found).toMatchObject({ missing: expect.stringContaining(`${named} cannot be run`) });
  });

  it('is looked for where the hint says to make it', () => {
    expect(findPython(['torch', 'trl'], { XDG_CACHE_HOME: empty })).toEqual({
      missing: `no Python with torch, trl; say: python3 -m venv ${empty}/troupe-bench/venv && ${empty}/troupe-bench/venv/bin/pip install -r bench/requirements.txt (about 6 GB), or set TROUPE_BENCH_PYTHON`,
    });
  });
});

describe('A side in a process of its own', () => {
  it('that fails says why, and one that is gone says its last words', async () => {
    const worker = startOurs('train.ts', { env: { NODE_OPTIONS: `--import ${loader}` } });
    await expect(worker.ask({ do: 'open', dir: empty, adapter: null, threads: 1 })).rejects.toThrow(
      /train\.ts: .*config\.json/,
    );
    await expect(worker.ask<{ baseline: number | null }>({ do: 'memory' })).resolves.toHaveProperty('peak');
    await worker.close();
    await expect(worker.ask({ do: 'memory' })).rejects.toThrow(/train\.ts ended/);
  });
});

describe('What the models are shown', () => {
  it('the sizes have the parameters they are named by', () => {
    const millions = SIZES.map(({ name, config }) => [name, parameterCount(config) / 1e6] as const);
    for (const [name, count] of millions) {
      const named = Number.parseFloat(name) * (name.endsWith('b') ? 1000 : 1);
      expect(Math.abs(count / named - 1)).toBeLessThan(0.1);
    }
    expect(sizesNamed('4m,0.5M').map(({ name }) => name)).toEqual(['4m', '0.5m']);
  });

  it('a step costs six operations a parameter and token, and the attention besides', () => {
    const [size] = sizesNamed('0.5m');
    const tokens = 8 * 64;
    expect(stepOperations(size!)).toBe(tokens * (6 * 461_440 + 12 * 2 * 128 * 64));
  });

  it('batches are the same from the same seed, of ids the model has, and never the padding', () => {
    const [size] = sizesNamed('0.5m');
    const batches = batchesOf(size!, 3)(2);
    expect(batches).toEqual(batchesOf(size!, 3)(2));
    expect(batches).not.toEqual(batchesOf(size!, 4)(2));
    expect(batches[0]).not.toEqual(batches[1]);
    expect(batches.flat(2).every((id) => Number.isInteger(id) && id >= 1 && id < 512)).toBe(true);
    expect(batches.map((batch) => batch.map((ids) => ids.length))).toEqual(Array(2).fill(Array(8).fill(64)));
  });

  it('without a data set lengths are drawn, and the report says so', () => {
    const lengths = realLengths(undefined, 5)
      .take(2000)
      .toSorted((a, b) => a - b);
    expect(lengths.every((length) => Number.isInteger(length) && length >= 8 && length <= 512)).toBe(true);
    expect(lengths[1000]).toBeGreaterThan(55);
    expect(lengths[1000]).toBeLessThan(75);
    expect(realLengths(empty, 5).source).toMatch(/log-normal/);
  });

  it.skipIf(!process.env.TROUPE_DATA)('with a data set they are those of its turns', () => {
    const lengths = realLengths(process.env.TROUPE_DATA, 5);
    expect(lengths.source).toMatch(/^lengths of \d+ chat turns/);
    expect(new Set(lengths.take(500)).size).toBeGreaterThan(50);
  });
});
