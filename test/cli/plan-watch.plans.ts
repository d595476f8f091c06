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

/** Live episodes of now, each answered once by `solver` or played in a version of a team; the first `right` of ten have the reward 1. */
async function live(
  name: string,
  { checkpoint_id, team_id }: { readonly checkpoint_id?: string; readonly team_id?: string },
  right: number,
): Promise<void> {
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
    const answer = { call_id: `${episode_id}-c`, choices: [] };
    return [
      say('episode.started', { task_id: episode_id, ...(team_id === undefined ? {} : { team_id }) }),
      say(
        'generation.completed',
        checkpoint_id === undefined ? answer : { ...answer, policy: 'solver', checkpoint_id },
      ),
      say('feedback.recorded', reward),
      say('episode.finished', { outcome: 'success' }),
    ];
  });
  writeFileSync(join(at.folder, `${name}.jsonl`), lines(events.flat()));
  expect((await at.run(['import', `${name}.jsonl`, '--quiet'])).code).toBe(0);
}

const policies = async () => document(await at.run(['policies', '--json']));
/** What is in force once the release is not. */
async function afterRelease(release: string) {
  for (;;) {
    const now = await policies();
    if (now.release_id !== release) return now;
    await sleep(200);
  }
}
/** Runs a plan whose gate is manual, and accepts it. */
async function release(plan: object & { readonly name: string }, run: string) {
  writeFileSync(join(at.folder, `${plan.name}.yaml`), stringify(plan));
  await at.run(['plan', 'run', `${plan.name}.yaml`, '--json']);
  const ended = await at.run(['gate', 'accept', run, '--json']);
  expect([ended.err, ended.code]).toEqual(['', 0]);
  return document(ended).rounds[0];
}
const watch = { metric: 'reward', fall: 0.1, at_least: 20 };

it('A release of a plan that makes live episodes worse is rolled back by `run work`, and the policy answers as before', async () => {
  const plan = { ...playPlan('loop', {}, { steps: 2 }), gate: { kind: 'manual' }, watch };
  const first = (await release(plan, 'loop-1')).candidates.solver;
  await live('before', { checkpoint_id: first }, 8);
  const second = (await release(plan, 'loop-2')).candidates.solver;
  expect(second).not.toBe(first);
  expect(await policies()).toMatchObject({
    release_id: 'loop-2/1',
    watch: { outcome: 'watching', evidence: { before: { units: 40 }, after: { units: 0 } } },
  });
  const worker = at.start(['run', 'work', '--json']);
  const projector = at.start(['run', 'project', '--json']);
  await Promise.all([worker.waitForOutput(/"role"/), projector.waitForOutput(/"role"/)]);
  await live('after', { checkpoint_id: second }, 2);
  const now = await afterRelease('loop-2/1');
  expect(now).toMatchObject({
    release_id: 'loop-2/1/watch/rollback',
    items: [{ policy: 'solver', released: first }],
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

it('A version of a team after whose release live episodes are worse is rolled back, and the policies stay', async () => {
  const version = (prompt: string) => ({ agents: [{ name: 'solver', prompt }] });
  const plan = (prompt: string) => ({
    ...{ name: 'words', team: { name: 'readers', candidate: version(prompt) } },
    ...{ gate: { kind: 'manual' }, watch },
  });
  const before = await policies();
  const first = (await release(plan('Say the number.'), 'words-1')).teams.readers;
  await live('plain', { team_id: first }, 8);
  expect((await policies()).watch).toMatchObject({ release_id: 'words-1/1', outcome: 'watching' });
  const checked = document(await at.run(['plan', 'check', 'words.yaml', '--json']));
  expect(checked.notes.join(' ')).toContain('which name their version by team_id');
  const second = (await release(plan('Sing the number.'), 'words-2')).teams.readers;
  expect(second).not.toBe(first);
  expect((await policies()).watch.evidence).toMatchObject({ before: { units: 40 }, after: { units: 0 } });
  // Episodes that name no version, or another team's, are no evidence.
  await live('nameless', {}, 0);
  await live('foreign', { team_id: 'writers@1' }, 0);
  await live('sung', { team_id: second }, 2);
  const now = await afterRelease('words-2/1');
  expect(now).toMatchObject({
    ...{ release_id: 'words-2/1/watch/rollback', teams: { readers: first }, items: before.items },
    rolled_back: expect.stringContaining('The metric fell: the mean reward of 40 live episodes is 0.2'),
  });
}, 300_000);
