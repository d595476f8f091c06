import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { killedSaves } from './killed-saves.ts';

const folder = await mkdtemp(join(tmpdir(), 'troupe-saves-'));
afterAll(() => rm(folder, { recursive: true, force: true }));

it('P25, P26: a process that is killed while it saves leaves a latest that loads, nothing visible that does not, and no temporary after a sweep', async () => {
  const { step, swept, wrong } = await killedSaves(folder, 12, 7);
  expect(wrong).toEqual([]);
  expect(step).toBeGreaterThan(3);
  // Some of the kills must have hit a save, or this test would not show anything.
  expect(swept).toBeGreaterThan(0);
}, 120_000);
