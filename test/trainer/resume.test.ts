import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { shuffledOrder } from '../../trainer/learn/data/orders.ts';
import { maskedRow, type TokenRow } from '../../trainer/learn/data/training-rows.ts';
import { decodeMatrices, differences, encodeMatrices, type Settings } from '../../trainer/learn/run-state.ts';
import { namedSchedule } from '../../trainer/learn/schedules.ts';
import { sft } from '../../trainer/learn/sft.ts';
import { ADAM } from '../../trainer/learn/training-loop.ts';
import { latestCheckpoint, listCheckpoints } from '../../trainer/model/checkpoints/checkpoint.ts';
import { bestOf, closeRun, openRun, type RunOptions, saveRun } from '../../trainer/model/checkpoints/run-folder.ts';
import type { Adapter } from '../../trainer/model/lora.ts';
import { newModelDirectory, openModel } from '../../trainer/model/model-directory.ts';
import { tinyConfig, tinyTemplate, tinyTokenizer } from './tiny-checkpoint.ts';

const STEPS = 12;
const rows: TokenRow[] = Array.from(
  { length: 9 },
  (_, i) =>
    maskedRow(
      Array.from({ length: 4 + (i % 4) }, (_, t) => (i + t) % tinyConfig.vocab_size),
      null,
    )!,
);

describe('a run that is interrupted', () => {
  let root: string;
  let base: string;
  beforeAll(async () => {
    root = mkdtempSync(join(tmpdir(), 'troupe-resume-'));
    base = join(root, 'model');
    await newModelDirectory(base, {
      config: tinyConfig,
      tokenizer: tinyTokenizer,
      chatTemplate: tinyTemplate,
      seed: 7,
    });
  });
  afterAll(() => rmSync(root, { recursive: true, force: true }));

  type Asked = Partial<Pick<RunOptions, 'threads' | 'adapter' | 'mode'>> & {
    readonly settings?: Settings;
    /** Steps after which the process is gone: without a word, or after saving where it is. */
    readonly killAfter?: number;
    readonly stopAfter?: number;
    readonly every?: number;
    readonly keep?: number;
  };

  /** One process's part of a run. */
  const part = async (folder: string, asked: Asked = {}) => {
    const { threads = 1, adapter = null, mode = 'auto', settings = { lr: 0.01 }, every = 5, keep = 1 } = asked;
    const start = await openModel(base);
    const options = { folder, start, settings, steps: STEPS, seed: 1, threads, adapter, mode };
    const run = await openRun(options);
    const stop = new AbortController();
    const gone = new Error('gone');
    const heldOut = rows.slice(0, 2);
    try {
      const progress = await sft(
        run.learner.model,
        rows,
        {
          steps: STEPS,
          order: shuffledOrder(rows.length, { batch: 4 }, 1),
          mean: 'token-mean',
          entropy: 0,
          schedule: namedSchedule('cosine', { rate: 0.01, steps: STEPS, warmup: 3 }),
          adam: ADAM,
          heldOut,
        },
        {
          evaluateEvery: 4,
          patience: 50,
          checkpointEvery: every,
          signal: stop.signal,
          save: async (at) => {
            const meta = { datasets: ['d'], log_positions: {}, code_version: 'test' };
            await saveRun(run, at, { meta, keep, reference: null });
          },
          onStep: ({ step }) => {
            if (step === asked.killAfter) throw gone;
            if (step === asked.stopAfter) stop.abort();
          },
        },
        run.progress,
      );
      return { from: run.progress.step, progress, id: run.learner.id };
    } catch (error) {
      if (error !== gone && (error as { code?: string }).code !== 'interrupted') throw error;
      return null;
    } finally {
      await closeRun(run);
    }
  };
  let count = 0;
  const folder = () => join(root, `out-${count++}`);

  it('P28: killed at any step and started again, it has the very losses and the checkpoint of one that was not', async () => {
    const whole = (await part(folder()))!;
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 1, max: STEPS - 1 }), { maxLength: 3 }),
        fc.boolean(),
        async (ends, kill) => {
          const out = folder();
          for (const end of ends) await part(out, kill ? { killAfter: end } : { stopAfter: end });
          const last = (await part(out))!;
          expect(last.progress).toEqual(whole.progress);
          expect(last.id).toBe(whole.id);
        },
      ),
      { numRuns: 6 },
    );
  });

  it('P28: with two threads its losses agree to 1e-5', async () => {
    const whole = (await part(folder(), { threads: 2 }))!;
    const out = folder();
    await part(out, { threads: 2, killAfter: 8 });
    const last = (await part(out, { threads: 2 }))!;
    for (const [i, loss] of whole.progress.curves.loss.entries()) {
      expect(Math.abs(last.progress.curves.loss[i]! - loss)).toBeLessThan(1e-5);
    }
  });

  it('P28: an adapter goes on as exactly', async () => {
    const adapter: Adapter = { r: 2, alpha: 4, targets: ['q_proj', 'v_proj'] };
    const whole = (await part(folder(), { adapter }))!;
    const out = folder();
    await part(out, { adapter, stopAfter: 7 });
    const last = (await part(out, { adapter }))!;
    expect(last.progress).toEqual(whole.progress);
    expect(last.id).toBe(whole.id);
  });

  it('begins where the last checkpoint was, and a run that ended is done again unless it is to be resumed', async () => {
    const out = folder();
    await part(out, { killAfter: 8 });
    expect((await part(out))!.from).toBe(5);
    expect((await part(out))!.from).toBe(0);
    expect((await part(out, { mode: 'resume' }))!.from).toBe(STEPS);
  });

  it('refuses to go on with other settings and names them, and begins anew when asked to', async () => {
    const out = folder();
    await part(out, { killAfter: 8 });
    const other = { settings: { lr: 0.02, batch: 4 } };
    await expect(part(out, other)).rejects.toMatchObject({
      code: 'conflict',
      message: expect.stringMatching(/step 5 of 12.*lr is 0.02, it was 0.01; batch is 4, it was not given/),
    });
    expect((await part(out, { ...other, mode: 'restart' }))!.from).toBe(0);
  });

  it('keeps as many checkpoints as asked, and the best one; latest is the last', async () => {
    const out = folder();
    const { progress, id } = (await part(out, { every: 2, keep: 2 }))!;
    const best = await bestOf(out, { lr: 0.01 }, progress);
    expect(best).not.toBeNull();
    const kept = await listCheckpoints(out);
    expect(kept).toContain(id);
    expect(kept.length).toBeGreaterThanOrEqual(2);
    expect(kept.length).toBeLessThanOrEqual(3);
    expect(await latestCheckpoint(out)).toBe(join(out, id));
  });
});

describe('the state of a run', () => {
  it('matrices come back bit for bit', () => {
    const data = new Float32Array([1 / 3, -0, 1e-40, 3.4e38]);
    const weights = new Map([['a.lora_A.weight', { shape: [2, 2], data }]]);
    const back = decodeMatrices(JSON.parse(JSON.stringify(encodeMatrices(weights))));
    expect(back.get('a.lora_A.weight')!.shape).toEqual([2, 2]);
    expect(Buffer.from(back.get('a.lora_A.weight')!.data.buffer)).toEqual(Buffer.from(data.buffer));
  });

  it('names in what two runs differ', () => {
    expect(differences({ a: 1, b: 'x' }, { a: 1, b: 'y', c: null })).toEqual([
      'b is "x", it was "y"',
      'c is not given, it was null',
    ]);
  });
});
