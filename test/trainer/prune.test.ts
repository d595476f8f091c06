import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  latestCheckpoint,
  listCheckpoints,
  loadCheckpoint,
  pointLatest,
  saveCheckpoint,
} from '../../trainer/model/checkpoints/checkpoint.ts';
import { type Candidate, chooseKept, type PruneRule, pruneCheckpoints } from '../../trainer/model/checkpoints/prune.ts';
import { tinyContents } from './tiny-checkpoint.ts';

let root: string;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'troupe-prune-'));
});
afterAll(() => rm(root, { recursive: true, force: true }));

/** A folder with checkpoints of steps 0 to `count` - 1 whose reward rises and falls again; latest is the last. */
async function folderOf(count: number): Promise<{ folder: string; ids: string[] }> {
  const folder = await mkdtemp(join(root, 'checkpoints-'));
  const ids: string[] = [];
  for (let step = 0; step < count; step++) {
    const { meta, ...rest } = tinyContents(step);
    const metrics = { reward: step === 0 ? null : -Math.abs(step - 3) };
    ids.push((await saveCheckpoint(folder, { ...rest, meta: { ...meta, metrics } }, { durable: false })).id);
  }
  await pointLatest(folder, ids.at(-1)!);
  return { folder, ids };
}

const at = (id: string, step: number | null, reward: number | null = null, base: string | null = null): Candidate => ({
  id,
  step,
  savedAt: 0,
  metrics: { reward },
  bytes: 1,
  base,
});

describe('a rule of pruning', () => {
  it('keeps the last, every n-th, the best, the latest and the protected, each with its reasons', async () => {
    const { folder, ids } = await folderOf(8);
    const rule: PruneRule = {
      keepLast: 2,
      keepEvery: 4,
      keepBest: { metric: 'reward', mode: 'max' },
      protectedIds: [ids[1]!],
    };
    const dry = await pruneCheckpoints(folder, rule, { dryRun: true });
    expect(await listCheckpoints(folder)).toHaveLength(8);
    const done = await pruneCheckpoints(folder, rule);
    expect(done).toEqual(dry);
    expect(done.kept).toEqual([
      { id: ids[7], why: ['latest', 'among the last 2'] },
      { id: ids[6], why: ['among the last 2'] },
      { id: ids[4], why: ['step 4, every 4'] },
      { id: ids[3], why: ['best reward'] },
      { id: ids[1], why: ['protected'] },
      { id: ids[0], why: ['step 0, every 4'] },
    ]);
    expect(done.removed.map(({ id, step }) => [id, step])).toEqual([
      [ids[5], 5],
      [ids[2], 2],
    ]);
    expect(done.removed.every(({ bytes }) => bytes > 1000)).toBe(true);
    expect((await readdir(folder)).sort()).toEqual([...done.kept.map(({ id }) => id), 'latest'].sort());
  });

  it('keeps what the adapter of a kept one lies over, and not what that of a removed one does', () => {
    const all = [at('base', 0), at('other', 0), at('early', 1, null, 'other'), at('late', 2, null, 'base')];
    expect(chooseKept(all, null, { keepLast: 1 })).toEqual([
      { id: 'late', why: ['among the last 1'] },
      { id: 'early', why: [] },
      { id: 'other', why: [] },
      { id: 'base', why: ['base of the adapter of late'] },
    ]);
  });

  it('never removes the latest, also where others are newer, nor what cannot be read', async () => {
    const { folder, ids } = await folderOf(4);
    await pointLatest(folder, ids[0]!);
    await writeFile(join(folder, ids[1]!, 'troupe.json'), 'damaged');
    const { kept, removed } = await pruneCheckpoints(folder, { keepLast: 1 });
    expect(new Map(kept.map(({ id, why }) => [id, why]))).toEqual(
      new Map([
        [ids[3], ['among the last 1']],
        [ids[0], ['latest']],
        [ids[1], ['cannot be read']],
      ]),
    );
    expect(removed.map(({ id }) => id)).toEqual([ids[2]]);
    expect((await loadCheckpoint((await latestCheckpoint(folder))!)).id).toBe(ids[0]);
  });

  it('the best is the least where the mode is min, and one without the metric is never it', () => {
    const candidates = [at('a', 1, 0.5), at('b', 2, null), at('c', 3, 0.25), at('d', 4, 0.25), at('e', 5, NaN)];
    const best = (mode: 'min' | 'max', count?: number): string[] =>
      chooseKept(candidates, null, { keepLast: 1, keepBest: { metric: 'reward', mode, ...(count ? { count } : {}) } })
        .filter(({ why }) => why.includes('best reward'))
        .map(({ id }) => id);
    expect(best('min')).toEqual(['d']);
    expect(best('max')).toEqual(['a']);
    expect(best('min', 3)).toEqual(['d', 'c', 'a']);
    expect(best('max', 9)).toHaveLength(3);
  });

  it('whatever the folder holds, keeps at least what it names, and gives every checkpoint one fate', () => {
    const candidates = fc
      .uniqueArray(fc.string({ unit: fc.constantFrom(...'0123456789abcdef'), minLength: 16, maxLength: 16 }))
      .chain((ids) =>
        fc.tuple(
          ...ids.map((id) =>
            fc.tuple(fc.option(fc.nat(50)), fc.option(fc.double())).map(([step, r]) => at(id, step, r)),
          ),
        ),
      );
    fc.assert(
      fc.property(
        candidates,
        fc.integer({ min: 1, max: 5 }),
        fc.integer({ min: 1, max: 9 }),
        fc.nat(),
        (all, keepLast, keepEvery, pick) => {
          const latest = all.length === 0 ? null : all[pick % all.length]!.id;
          const chosen = chooseKept(all, latest, { keepLast, keepEvery });
          expect(chosen.map(({ id }) => id).sort()).toEqual(all.map(({ id }) => id).sort());
          const kept = new Set(chosen.filter(({ why }) => why.length > 0).map(({ id }) => id));
          if (latest !== null) expect(kept.has(latest)).toBe(true);
          const steps = all.filter(({ step }) => step !== null);
          expect(steps.filter(({ id }) => kept.has(id)).length).toBeGreaterThanOrEqual(
            Math.min(keepLast, steps.length),
          );
          for (const { id, step } of all) {
            if (step === null || step % keepEvery === 0) expect(kept.has(id)).toBe(true);
          }
        },
      ),
    );
  });

  it.each<[string, PruneRule]>([
    ['keeps none', { keepLast: 0 }],
    ['keeps a half', { keepLast: 1.5 }],
    ['keeps every 0th', { keepLast: 1, keepEvery: 0 }],
    ['keeps the best 0', { keepLast: 1, keepBest: { metric: 'x', mode: 'max', count: 0 } }],
    ['knows another mode', { keepLast: 1, keepBest: { metric: 'x', mode: 'best' as 'max' } }],
  ])('is refused where it %s, before anything is touched', async (_, rule) => {
    const { folder } = await folderOf(2);
    await expect(pruneCheckpoints(folder, rule)).rejects.toMatchObject({ code: 'usage' });
    expect(await listCheckpoints(folder)).toHaveLength(2);
  });
});

describe('pruning beside others', () => {
  it('shows a reader all of a checkpoint or nothing', async () => {
    const { folder, ids } = await folderOf(6);
    const reading = ids.flatMap((id) =>
      Array.from({ length: 5 }, () =>
        loadCheckpoint(join(folder, id)).then(
          (found) => found.id === id,
          (error) => error.code,
        ),
      ),
    );
    await pruneCheckpoints(folder, { keepLast: 1 });
    for (const outcome of await Promise.all(reading)) expect([true, 'not_found']).toContain(outcome);
    expect(await readdir(folder)).toHaveLength(2);
  });

  it('leaves no latest without its checkpoint, also where latest is moved meanwhile', async () => {
    for (let round = 0; round < 5; round++) {
      const { folder, ids } = await folderOf(5);
      await Promise.all([
        pruneCheckpoints(folder, { keepLast: 1 }),
        pointLatest(folder, ids[round % 4]!, { durable: false }).catch(() => {}),
      ]);
      const latest = (await latestCheckpoint(folder))!;
      const there = await loadCheckpoint(latest).catch((error) => error.code);
      // Who moves latest to what was removed before finds it missing; what was there when latest moved has stayed.
      if (there === 'not_found') expect(await listCheckpoints(folder)).not.toContain(latest.slice(-16));
      expect((await listCheckpoints(folder)).includes(ids[4]!)).toBe(true);
    }
  });

  it('of an empty or missing folder removes nothing', async () => {
    expect(await pruneCheckpoints(join(root, 'nowhere'), { keepLast: 1 })).toEqual({
      kept: [],
      removed: [],
      swept: [],
    });
  });
});
