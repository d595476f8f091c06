import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { lines } from './support/chats.ts';
import { heldOut, playPlan, prepared } from './support/held-out.ts';
import { document, type Shell, shell } from './support/troupe.ts';

let database: TestDatabase;
let at: Shell;
let address: string;
beforeAll(async () => {
  database = await freshDatabase();
  at = shell({ DATABASE_URL: database.url });
  ({ address } = await prepared(at, heldOut(2)));
}, 300_000);
afterAll(async () => {
  at.remove();
  await database.close();
});

/** Live episodes of now, each answered once by `solver` with that checkpoint; the first `right` of ten have the reward 1. */
async function live(name: string, checkpoint_id: string, right: number): Promise<void> {
  const time = new Date().toISOString();
  const events = Array.from({ length: 40 }, (_, i) => {
    const episode_id = `${name}-${i}`;
    const say = (type: string, data: object) => ({
      ...{ specversion: '1.0', type: `troupe.${type}.v1`, source: '/live', id: `${episode_id}/${type}`, time },
      data: { episode_id, ...data },
    });
    const target = { kind: 'episode', id: episode_id, episode_id };
    const reward = {
      feedback_id: `${episode_id}/r`,
      target,
      kind: 'reward',
      name: 'reward',
      value: i % 10 < right ? 1 : 0,
    };
    return [
      say('episode.started', { task_id: episode_id }),
      say('generation.completed', { call_id: `${episode_id}-c`, policy: 'solver', checkpoint_id, choices: [] }),
      say('feedback.recorded', reward),
      say('episode.finished', { outcome: 'success' }),
    ];
  });
  writeFileSync(join(at.folder, `${name}.jsonl`), lines(events.flat()));
  expect((await at.run(['import', `${name}.jsonl`, '--quiet'])).code).toBe(0);
}

it('A release of a plan that makes live episodes worse is rolled back by `run work`, and the policy answers as before', async () => {
  const plan = {
    ...playPlan('loop', {}, { steps: 2 }),
    gate: { kind: 'manual' },
    watch: { metric: 'reward', fall: 0.1, at_least: 20 },
  };
  writeFileSync(join(at.folder, 'loop.yaml'), stringify(plan));
  const release = async (run: string): Promise<string> => {
    await at.run(['plan', 'run', 'loop.yaml', '--json']);
    const ended = await at.run(['gate', 'accept', run, '--json']);
    expect([ended.err, ended.code]).toEqual(['', 0]);
    return document(ended).rounds[0].candidates.solver;
  };
  const policies = async () => document(await at.run(['policies', '--json']));
  const first = await release('loop-1');
  await live('before', first, 8);
  const second = await release('loop-2');
  expect(second).not.toBe(first);
  expect(await policies()).toMatchObject({
    release_id: 'loop-2/1',
    watch: { outcome: 'watching', evidence: { before: { units: 40 }, after: { units: 0 } } },
  });
  const worker = at.start(['run', 'work', '--json']);
  const projector = at.start(['run', 'project', '--json']);
  await Promise.all([worker.said(/"role"/), projector.said(/"role"/)]);
  await live('after', second, 2);
  for (;;) {
    const { release_id } = await policies();
    if (release_id !== 'loop-2/1') break;
    await sleep(200);
  }
  const now = await policies();
  expect(now).toMatchObject({
    release_id: 'loop-2/1/watch/rollback',
    policies: [{ policy: 'solver', released: first }],
    rolled_back: expect.stringContaining('The metric fell: the mean reward of 40 live episodes is 0.2'),
  });
  const page = await at.run(['gate', 'show', 'loop-2']);
  expect(page.out).toContain('Watch of release loop-2/1: fell');
  expect(page.out).toContain('Rolled back to loop-1/1 by release loop-2/1/watch/rollback.');
  // What answers follows the release that went back.
  for (;;) {
    const { data } = (await (await fetch(`${address}/v1/models`)).json()) as { data: { id: string }[] };
    if (data.some(({ id }) => id === `checkpoint:${first}`)) break;
    await sleep(200);
  }
}, 300_000);
