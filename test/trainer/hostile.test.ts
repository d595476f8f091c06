import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { checkOnnxFile } from '../../trainer/model/files/onnx-file.ts';
import { writeOnnx } from '../../trainer/tensor/onnx.ts';
import { expectBelow } from '../support/measured.ts';
import { compiledProgram } from '../support/program.ts';
import type { Entry } from './hostile/entry.ts';
import { onnxCorpus, soundOnnx } from './hostile/onnx-corpus.ts';
import { otherCorpus } from './hostile/other-corpus.ts';
import type { Answer, Asked } from './hostile/refuse-program.ts';
import { safetensorsCorpus } from './hostile/safetensors-corpus.ts';

const corpora: readonly [as: Asked['as'], label: string, entries: readonly Entry[], atLeast: number][] = [
  ['safetensors', 'a safetensors file', safetensorsCorpus, 70],
  ['safetensors', 'a file of another kind called safetensors', otherCorpus, 15],
  ['onnx', 'a file of another kind called ONNX', otherCorpus, 15],
  ['onnx', 'an ONNX file', onnxCorpus, 40],
];

/** The peak of memory can be asked for, and begun again, on Linux alone. */
const onLinux = existsSync('/proc/self/clear_refs');
const LIMIT_MIB = 64;
const LIMIT_MS = 2000;

let root: string;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'troupe-hostile-'));
});
afterAll(() => rm(root, { recursive: true, force: true }));

describe.skipIf(!onLinux).each(corpora)('as %s: %s', (as, label, entries, atLeast) => {
  let answers: readonly Answer[];
  beforeAll(async () => {
    const folder = await mkdtemp(join(root, 'corpus-'));
    const asked: Asked[] = [];
    for (const [i, { name, make }] of entries.entries()) {
      const path = join(folder, `${i}.${as}`);
      await make(path);
      asked.push({ name, path, as });
    }
    const list = join(folder, 'list.json');
    await writeFile(list, JSON.stringify(asked));
    const program = await compiledProgram(join(import.meta.dirname, 'hostile', 'refuse-program.ts'));
    const options = { encoding: 'utf8', timeout: 120_000, maxBuffer: 1 << 24 } as const;
    answers = JSON.parse(execFileSync(process.execPath, ['--expose-gc', program, list], options));
    await rm(folder, { recursive: true });
  }, 150_000);

  it(`P27, P52: ${label} has the outcome its corpus says, in flat memory and soon`, () => {
    expect(answers.map(({ name }) => name)).toEqual(entries.map(({ name }) => name));
    expect(entries.filter(({ expected }) => expected !== 'read').length).toBeGreaterThanOrEqual(atLeast);
    for (const [i, { name, expected, says }] of entries.entries()) {
      const { outcome, message, ms, mib } = answers[i]!;
      expect(outcome, `${name}: ${message}`).toBe(expected);
      if (expected !== 'read') expect(message, name).toMatch(says);
      expect(message.length, name).toBeLessThan(500);
      expectBelow(mib, LIMIT_MIB, `${name}: MiB`);
      expectBelow(ms, LIMIT_MS, `${name}: ms`);
    }
  });
});

describe('an ONNX file', () => {
  it('shows its inputs, outputs and parts', () => {
    expect(checkOnnxFile(soundOnnx)).toEqual({
      inputs: [{ name: 'x', type: 1, shape: ['n', 3] }],
      outputs: [{ name: 'y', type: 1, shape: ['n', 3] }],
      nodes: 1,
      operators: ['Add'],
      opsets: { '': 18 },
      parameters: 3,
    });
  });

  it('is read where Troupe wrote it', () => {
    const bytes = writeOnnx({
      nodes: [{ op: 'MatMul', domain: '', inputs: ['x', 'w'], outputs: ['y'], attributes: {} }],
      constants: [{ name: 'w', dims: [3, 4], data: new Float32Array(12) }],
      inputs: [{ name: 'x', type: 'float32', shape: ['rows', 3] }],
      outputs: [{ name: 'y', type: 'float32', shape: ['rows', 4] }],
    });
    expect(checkOnnxFile(bytes)).toEqual({
      inputs: [{ name: 'x', type: 1, shape: ['rows', 3] }],
      outputs: [{ name: 'y', type: 1, shape: ['rows', 4] }],
      nodes: 1,
      operators: ['MatMul'],
      opsets: { '': 18, 'com.microsoft': 1 },
      parameters: 12,
    });
  });

  it('P52: is read or refused, whatever bytes of it are changed or cut', () => {
    fc.assert(
      fc.property(fc.nat(soundOnnx.length - 1), fc.nat(255), fc.nat(soundOnnx.length), (at, value, cut) => {
        const bytes = soundOnnx.slice(0, cut);
        if (at < cut) bytes[at] = value;
        try {
          expect(checkOnnxFile(bytes).nodes).toBeGreaterThanOrEqual(0);
        } catch (error) {
          expect((error as { code?: string }).code).toMatch(/^(checkpoint_damaged|model_unsupported)$/);
        }
      }),
      { numRuns: 2000 },
    );
  });
});
