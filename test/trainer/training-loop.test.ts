import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fileOrder, listedOrder, shuffledOrder, stepsFor } from '../../trainer/learn/data/orders.ts';
import { maskedRow, type TokenRow } from '../../trainer/learn/data/training-rows.ts';
import { namedSchedule } from '../../trainer/learn/schedules.ts';
import { supervisedBatch } from '../../trainer/learn/sft.ts';
import { closeTrainable, trainable } from '../../trainer/learn/step.ts';
import { ADAM, type Course, type FinishedStep, trainingLoop } from '../../trainer/learn/training-loop.ts';
import { sftLoss } from '../../trainer/model/losses/sft.ts';
import { initialWeights } from '../../trainer/model/parameters.ts';
import { TINY } from './tiny-model.ts';

const counting = (from: number, length: number): TokenRow =>
  maskedRow(
    Array.from({ length }, (_, i) => (from + i) % TINY.vocab_size),
    null,
  )!;

const fresh = () => trainable(TINY, initialWeights(TINY, 3));

const course = (more: Partial<Course> = {}): Course => ({
  steps: 10,
  rowsOf: (step) => supervisedBatch([counting(step, 6), counting(step + 3, 4)], 'token-mean', 0),
  loss: sftLoss,
  schedule: () => 0.01,
  adam: ADAM,
  ...more,
});

describe('orders', () => {
  it('a shuffled order takes each row once before any again, whatever the batch, and any step can be asked for first', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 30 }), fc.integer({ min: 1, max: 9 }), fc.nat(), (rows, batch, seed) => {
        const order = shuffledOrder(rows, { batch }, seed);
        const steps = Array.from({ length: 12 }, (_, step) => order(step));
        const taken = steps.flat();
        for (let from = 0; from + rows <= taken.length; from += rows) {
          expect(taken.slice(from, from + rows).sort((a, b) => a - b)).toEqual(
            Array.from({ length: rows }, (_, i) => i),
          );
        }
        expect(shuffledOrder(rows, { batch }, seed)(11)).toEqual(steps[11]);
      }),
    );
  });

  it('rows in file order come round again after the last', () => {
    const order = fileOrder(5, { batch: 3 });
    expect([0, 1, 2].map(order)).toEqual([
      [0, 1, 2],
      [3, 4, 0],
      [1, 2, 3],
    ]);
  });

  it('with a limit the last step is short, and the steps are as many as it takes', () => {
    const order = fileOrder(5, { batch: 3, taken: 10 });
    const steps = stepsFor(5, 3, 2);
    expect(steps).toBe(4);
    expect(Array.from({ length: steps }, (_, step) => order(step)).flat()).toEqual([0, 1, 2, 3, 4, 0, 1, 2, 3, 4]);
  });

  it('listed batches stay as they are', () => {
    const order = listedOrder([[2, 0], [1]]);
    expect([0, 1, 2].map(order)).toEqual([[2, 0], [1], [2, 0]]);
  });
});

describe('schedules', () => {
  it('rise to the rate over the warm-up, as steps or as a share, and never are 0', () => {
    for (const warmup of [4, 0.2]) {
      for (const name of ['constant', 'cosine', 'linear'] as const) {
        const schedule = namedSchedule(name, { rate: 2, steps: 20, warmup });
        const rates = Array.from({ length: 20 }, (_, step) => schedule(step));
        expect(rates.slice(0, 4)).toEqual([0.5, 1, 1.5, 2]);
        expect(Math.min(...rates)).toBeGreaterThan(0);
        expect(Math.max(...rates)).toBe(2);
      }
    }
  });

  it('linear falls in equal steps, cosine is at half in the middle', () => {
    const linear = namedSchedule('linear', { rate: 1, steps: 10, warmup: 0 });
    expect(linear(3) - linear(4)).toBeCloseTo(0.1, 12);
    expect(linear(9)).toBeCloseTo(0.1, 12);
    expect(namedSchedule('cosine', { rate: 1, steps: 10, warmup: 0 })(5)).toBeCloseTo(0.5, 12);
  });
});

describe('the training loop', () => {
  it('gives each step its rows and rate and reports its numbers', async () => {
    const model = fresh();
    const seen: FinishedStep[] = [];
    const { curves, step } = await trainingLoop(model, course({ schedule: (at) => 0.01 / (at + 1) }), {
      accuracy: true,
      onStep: (done) => void seen.push(done),
    });
    await closeTrainable(model);
    expect(step).toBe(10);
    expect(seen.map((done) => done.step)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    expect(seen[1]).toMatchObject({ steps: 10, learningRate: 0.005, trainedTokens: 8, tokens: 10, heldOut: null });
    expect(seen[1]!.metrics.accuracy).toBeGreaterThanOrEqual(0);
    expect(curves.loss).toEqual(seen.map((done) => done.loss));
    expect(curves.metrics.accuracy).toHaveLength(10);
    expect(curves.loss.at(-1)).toBeLessThan(curves.loss[0]!);
  });

  it('evaluates held-out rows every so many steps and at the end, without learning from them', async () => {
    const heldOut = supervisedBatch([counting(2, 5)], 'token-mean', 0);
    const [watched, alone] = [fresh(), fresh()];
    const { curves, best } = await trainingLoop(watched, course({ heldOut }), { evaluateEvery: 4 });
    const plain = await trainingLoop(alone, course());
    await Promise.all([closeTrainable(watched), closeTrainable(alone)]);
    expect(curves.heldOut.map(({ step }) => step)).toEqual([4, 8, 10]);
    expect(curves.loss).toEqual(plain.curves.loss);
    expect(best!.loss).toBe(Math.min(...curves.heldOut.map(({ loss }) => loss)));
  });

  it('ends early when the held-out loss has not got better for as many evaluations as patience allows', async () => {
    const model = fresh();
    // What is learnt contradicts what is held out, so that it gets worse.
    const heldOut = supervisedBatch([maskedRow([1, 1, 1, 1, 1], null)!], 'token-mean', 0);
    const saves: boolean[] = [];
    const { stopped, step, stale, best } = await trainingLoop(model, course({ heldOut, steps: 200 }), {
      evaluateEvery: 5,
      patience: 3,
      save: async (_, { better }) => void saves.push(better),
    });
    await closeTrainable(model);
    expect(stopped).toBe(true);
    expect(stale).toBe(3);
    expect(step).toBe(best!.step + 15);
    expect(saves.at(-1)).toBe(false);
    expect(saves.filter(Boolean).length).toBeGreaterThan(0);
  });

  it('finishes the step under way and saves it when it is asked to stop', async () => {
    const model = fresh();
    const stop = new AbortController();
    const saved: number[] = [];
    const run = trainingLoop(model, course(), {
      signal: stop.signal,
      save: async ({ step }) => void saved.push(step),
      onStep: ({ step }) => {
        if (step === 4) stop.abort();
      },
    });
    await expect(run).rejects.toMatchObject({ code: 'interrupted', message: expect.stringContaining('step 4 of 10') });
    await closeTrainable(model);
    expect(saved).toEqual([4]);
  });

  it('a loss that is not finite ends it, and nothing is saved', async () => {
    const model = fresh();
    const saved: number[] = [];
    const run = trainingLoop(model, course({ schedule: () => 1e30 }), {
      checkpointEvery: 1,
      save: async ({ step }) => void saved.push(step),
    });
    await expect(run).rejects.toMatchObject({ code: 'training_failed' });
    await closeTrainable(model);
    expect(saved.length).toBeLessThanOrEqual(1);
  });
});
