import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { heldOut, playPlan, prepared } from './support/held-out.ts';
import { document, type Running, type Shell, shell } from './support/troupe.ts';

/** Each test starts several processes. */
const SLOW = 400_000;

describe('a plan whose gate is a canary', () => {
  let database: TestDatabase;
  let at: Shell;
  let address: string;
  let work: Running;
  let serve: Running;
  let infer: Running;
  const tasks = heldOut(6) as { prompt: string; answer: string }[];

  const started = async (...args: string[]): Promise<Running> => {
    const running = at.start(['run', ...args, '--json']);
    await running.waitForOutput(/"role"/);
    return running;
  };
  beforeAll(async () => {
    database = await freshDatabase();
    at = shell({ DATABASE_URL: database.url });
    ({ address, serve, infer } = await prepared(at, tasks));
    [work] = await Promise.all([started('work'), started('project')]);
  }, SLOW);
  afterAll(async () => {
    at.remove();
    await database.close();
  });

  const post = (path: string, body: object, headers: Record<string, string> = {}) =>
    fetch(address + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
    });
  /** A live call of an episode. Returns the checkpoint that answered, and whether the answer is right. */
  async function call(episode: string, seed: number, headers: Record<string, string> = {}) {
    const task = tasks[seed % tasks.length]!;
    const response = await post(
      '/v1/chat/completions',
      { model: 'policy:solver', messages: [{ role: 'user', content: task.prompt }], max_tokens: 3, seed },
      { 'Troupe-Episode': episode, ...headers },
    );
    expect(response.status).toBe(200);
    const { troupe, choices } = (await response.json()) as {
      troupe: { checkpoint_id: string };
      choices: { message: { content: string } }[];
    };
    return { checkpoint: troupe.checkpoint_id, right: choices[0]!.message.content.trim() === task.answer };
  }
  /** Records the reward of an episode and that it has ended. */
  async function end(episode_id: string, value: number): Promise<void> {
    const time = new Date().toISOString();
    const say = (type: string, data: object) => ({
      ...{ specversion: '1.0', type: `troupe.${type}.v1`, source: '/live', id: `${episode_id}/${type}`, time },
      data: { episode_id, ...data },
    });
    const target = { kind: 'episode', id: episode_id, episode_id };
    const reward = { feedback_id: `${episode_id}/r`, target, kind: 'reward', name: 'reward', value };
    const answer = await post('/v1/events', [
      say('feedback.recorded', reward),
      say('episode.finished', { outcome: 'success' }),
    ]);
    expect(answer.status).toBe(200);
  }
  /** A live episode of one call, from its beginning to its end. Returns the checkpoint that answered. */
  async function live(name: string, seed: number): Promise<string> {
    const { checkpoint, right } = await call(name, seed);
    await end(name, right ? 1 : 0);
    return checkpoint;
  }
  const gateOf = async (run: string) => document(await at.run(['gate', 'show', run, '--json']));
  const released = async () => document(await at.run(['policies', '--json'])).release_id;
  const run = async (name: string, gate: object, train: object = {}) => {
    const plan = playPlan(name, {}, train);
    const policies = { solver: { ...plan.policies.solver, from: 'base' } };
    const rules = { bake_hours: 0, guardrails: { unknown: 0.4 } };
    const canary = { kind: 'canary', share: 0.5, metric: 'reward', ...rules, ...gate };
    writeFileSync(join(at.folder, `${name}.yaml`), stringify({ ...plan, policies, gate: canary }));
    const ended = await at.run(['plan', 'run', `${name}.yaml`, '--json']);
    expect([ended.err, ended.code]).toEqual(['', 7]);
    expect(document(ended)).toMatchObject({ state: 'undecided', decision: `${name}-1/1/gate` });
  };
  const loaded = async (checkpoint: string): Promise<void> => {
    for (;;) {
      const { data } = (await (await fetch(`${address}/v1/models`)).json()) as { data: { id: string }[] };
      if (data.some(({ id }) => id === `checkpoint:${checkpoint}`)) return;
      await sleep(100);
    }
  };

  it(
    'answers a share of the live episodes with the candidate, sticky, and releases it once it is better, over a kill',
    async () => {
      await run('better', { at_least: 12 });
      const before = await gateOf('better-1');
      expect(before).toMatchObject({ kind: 'canary', passed: false, canary: { state: 'running', began_at: null } });
      const { candidate, incumbent } = before.models.solver;
      await loaded(candidate);
      // All episodes of a group go to one side, and all calls of an episode.
      for (const group of ['g1', 'g2', 'g3']) {
        const headers = { 'Troupe-Group': group };
        const answered = await Promise.all([0, 1, 0, 1].map((i) => call(`${group}-${i}`, i, headers)));
        expect(new Set(answered.map(({ checkpoint }) => checkpoint)).size).toBe(1);
      }
      work.child.kill('SIGKILL');
      await work.ended;
      const counts: Record<string, number> = { [candidate]: 0, [incumbent]: 0 };
      for (let i = 0; i < 30; i++) counts[await live(`live-${i}`, i)]!++;
      expect(Object.keys(counts)).toHaveLength(2);
      for (const count of Object.values(counts)) expect(count).toBeGreaterThan(4);
      expect(await released()).toBeNull();
      work = await started('work');
      for (let i = 30; (await released()) === null; i++) await live(`live-${i}`, i);
      expect(await released()).toBe('better-1/1');
      const report = await gateOf('better-1');
      expect(report).toMatchObject({ passed: true, outcome: 'better', canary: { state: 'ended', share: 0.5 } });
      expect(report.canary.candidate.units).toBeGreaterThanOrEqual(12);
      const shown = await at.run(['gate', 'show', 'better-1']);
      expect([shown.code, shown.out]).toEqual([0, expect.stringContaining('the candidate answers 0.5 of the live')]);
      // The mean is that of what was recorded, and each side was answered by its own weights.
      const { rows } = await database.db.query<{ rewards: number; n: string }>(
        `select avg(e.reward) as rewards, count(*) as n from facts.episodes e join facts.calls c using (episode_id)
         where c.checkpoint_id = $1 and e.reward is not null and starts_with(e.episode_id, 'live-')`,
        [candidate],
      );
      expect(Number(rows[0]!.rewards)).toBeGreaterThan(0.5);
    },
    SLOW,
  );

  it(
    'gives a candidate that is worse no more traffic, and keeps what is released',
    async () => {
      await run('worse', { at_least: 12 }, { steps: 1, learning_rate: 0.5 });
      const { candidate, incumbent } = (await gateOf('worse-1')).models.solver;
      await loaded(candidate);
      let report = await gateOf('worse-1');
      for (let i = 0; report.canary.state === 'running'; i++) {
        await live(`second-${i}`, i);
        if (i % 10 === 9) report = await gateOf('worse-1');
      }
      expect(report).toMatchObject({ passed: false, outcome: 'worse' });
      expect(report.reason).toContain('cannot pass any more: all episodes (worse)');
      // The job ends with the next look of `run work`, and the gateway reads that within a second.
      for (;;) {
        const { rows } = await database.db.query(
          `select 1 from troupe.job_queue where job_id = 'worse-1' and state = 'finished'`,
        );
        if (rows.length > 0) break;
        await sleep(100);
      }
      await sleep(1100);
      for (let i = 0; i < 12; i++) expect(await live(`third-${i}`, i)).toBe(incumbent);
      expect(await released()).toBe('better-1/1');
    },
    SLOW,
  );

  it(
    'keeps the side of each episode over kills of who serves and who samples, until a person refuses the candidate',
    async () => {
      await run('refused', { at_least: 1000 });
      const { candidate, incumbent } = (await gateOf('refused-1')).models.solver;
      await loaded(candidate);
      const names = Array.from({ length: 12 }, (_, i) => `fourth-${i}`);
      const sides = async () =>
        Object.fromEntries(
          await Promise.all(names.map(async (name, i) => [name, (await call(name, i)).checkpoint] as const)),
        );
      const before = await sides();
      expect(new Set(Object.values(before))).toEqual(new Set([candidate, incumbent]));
      serve.child.kill('SIGKILL');
      infer.child.kill('SIGKILL');
      await Promise.all([serve.ended, infer.ended]);
      [serve, infer] = await Promise.all([
        started('serve', '--port', new URL(address).port),
        started('infer', '--policy', 'solver'),
      ]);
      await loaded(candidate);
      expect(await sides()).toEqual(before);

      const refused = await at.run([
        'gate',
        'refuse',
        'refused-1',
        '--reason',
        'Users complain.',
        '--by',
        'ana',
        '--json',
      ]);
      expect([refused.err, refused.code]).toEqual(['', 7]);
      const report = await gateOf('refused-1');
      expect(report).toMatchObject({ passed: false, canary: { state: 'ended' } });
      expect(report.reason).toMatch(/^Refused by ana: Users complain. Until then: It is under way/);
      await sleep(1100);
      for (let i = 0; i < 6; i++) expect((await call(`fifth-${i}`, i)).checkpoint).toBe(incumbent);
      expect(await released()).toBe('better-1/1');
      const again = await at.run(['gate', 'accept', 'refused-1', '--json']);
      expect([again.code, document(again).error.message]).toEqual([
        1,
        expect.stringContaining('waits for no decision'),
      ]);
    },
    SLOW,
  );

  it(
    'releases the candidate once a person accepts it',
    async () => {
      await run('accepted', { at_least: 1000 });
      const accepted = await at.run(['gate', 'accept', 'accepted-1', '--reason', 'It reads better.', '--json']);
      expect([accepted.err, accepted.code, document(accepted).released]).toEqual(['', 0, true]);
      expect(await released()).toBe('accepted-1/1');
      expect((await gateOf('accepted-1')).reason).toContain('It reads better.');
    },
    SLOW,
  );
});
