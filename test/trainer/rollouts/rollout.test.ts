/** A rollout with a team of its own, a program that asks the gateway: what is recorded of it, and of what goes wrong. */

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { postJson } from '../../../api/http/post.ts';
import { serve } from '../../../api/http/serve.ts';
import type { JsonObject } from '../../../ingest/events/json.ts';
import { postgresLog } from '../../../ingest/log/postgres.ts';
import { parseTaskFilter } from '../../../store/filter/select.ts';
import { createKey, listKeys } from '../../../store/keys/api-keys.ts';
import { attemptsOf, endAttempts } from '../../../store/loop/play/attempts.ts';
import { overBudget } from '../../../store/loop/play/budget.ts';
import { requestRollout } from '../../../store/loop/play/request.ts';
import { storedTasks } from '../../../store/loop/play/stored-tasks.ts';
import { recordRelease } from '../../../store/loop/release/releases.ts';
import { runProjector } from '../../../store/projecting/projector.ts';
import { type JobContext, requestJob, waitForJob } from '../../../store/queue/jobs/jobs.ts';
import { runJobs } from '../../../store/queue/jobs/worker.ts';
import { type RolloutResult, rolloutHandlers } from '../../../trainer/loop/play/handler.ts';
import { readRunners } from '../../../trainer/loop/play/runners.ts';
import { releasesBehind } from '../../../trainer/loop/play/staleness.ts';
import { sweepPoints } from '../../../trainer/loop/play/sweep.ts';
import { type TestApp, testApp } from '../../api/support/app.ts';

/** Asks the gateway once, then does what the task says. */
const TEAM = `
import { readFileSync, appendFileSync, existsSync, writeFileSync } from 'node:fs';
const task = JSON.parse(readFileSync(process.env.TROUPE_TASK, 'utf8'));
const { TROUPE_EPISODE, TROUPE_SAMPLE, TROUPE_ATTEMPT } = process.env;
if (process.env.SEEN) appendFileSync(process.env.SEEN, JSON.stringify(process.env) + '\\n');
if (!task.silent) {
  const answer = await fetch(process.env.OPENAI_BASE_URL + '/chat/completions', {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: 'Bearer ' + process.env.OPENAI_API_KEY },
    body: JSON.stringify({ model: 'policy:solver', messages: [{ role: 'user', content: task.prompt }] }),
  });
  if (!answer.ok) throw new Error('the gateway answered ' + answer.status);
}
if (task.fails === 'always' || task.fails === 'first' && TROUPE_ATTEMPT === '0') {
  console.error('the tool server is down; my token is ' + process.env.TOKEN);
  process.exit(3);
}
if (task.hangs && TROUPE_ATTEMPT === '0') await new Promise((resolve) => setTimeout(resolve, 60_000));
if (task.gate) while (!existsSync(task.gate)) await new Promise((resolve) => setTimeout(resolve, 20));
if (task.reward !== undefined) console.log(JSON.stringify({ reward: task.reward + Number(TROUPE_SAMPLE), answer: 'four' }));
`;

let at: TestApp;
let folder: string;
let context: JobContext;
let url: string;
let stop: AbortController;
let running: Promise<unknown>[];
beforeEach(async () => {
  at = await testApp();
  ({ url } = await serve(at.app, { host: '127.0.0.1', port: 0 }));
  folder = mkdtempSync(join(tmpdir(), 'troupe-rollout-'));
  writeFileSync(join(folder, 'team.mjs'), TEAM);
  context = { db: at.db, log: postgresLog(at.db), now: () => new Date() };
  stop = new AbortController();
  running = [runProjector(at.db, { signal: stop.signal, onTrouble: () => {} })];
});
afterEach(async () => {
  stop.abort();
  await Promise.all(running);
  await at.close();
  rmSync(folder, { recursive: true, force: true });
});

const work = (fields: JsonObject = {}, env: JsonObject = {}, signal = stop.signal): Promise<void> => {
  const team = { command: [process.execPath, join(folder, 'team.mjs')], url, reward: 'stdout', ...fields };
  const settings = {
    runners: readRunners({ team }),
    env: { ...process.env, ...env } as Record<string, string>,
    post: postJson(),
    signal,
  };
  const handlers = rolloutHandlers(context, settings);
  const done = runJobs(context, { worker: `w${running.length}`, handlers, signal, pollMs: 20 });
  running.push(done);
  return done;
};
const request = (tasks: readonly JsonObject[], more: JsonObject = {}) =>
  requestJob(context, { job_id: 'r', kind: 'rollout', spec: { runner: 'team', tasks, samples: 2, ...more } });
const result = async () => (await waitForJob(at.db, 'r', { timeoutMs: 60_000 })) as RolloutResult;
const episodes = async () => {
  await at.project();
  const { rows } = await at.db.query<Record<string, unknown>>(
    `select episode_id, task_id, group_id, group_size, attempt, outcome, reward, answer, calls, closed, tags->>'sample' as sample, stop_reason
     from traj.episodes order by episode_id collate "C"`,
  );
  return rows;
};
const until = async (look: () => Promise<boolean>): Promise<void> => {
  for (let tries = 0; !(await look()); tries++) {
    if (tries > 1000) throw new Error('it did not come');
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
};

describe('a rollout', () => {
  it('plays every task as often as asked, and records complete groups with rewards', async () => {
    work();
    const tasks = [
      { task_id: 'a/b c', prompt: '2+2?', answer: '4', reward: 0 },
      { task_id: 'b', prompt: '3+3?', reward: 0.5 },
    ];
    await request(tasks, { tags: { phase: 'train' }, policies: { solver: 'c-1' } });
    expect(await result()).toEqual({
      rollout_id: 'r',
      episodes: ['r/a/b c/0', 'r/a/b c/1', 'r/b/0', 'r/b/1'],
      groups: { complete: 2, partial: 0 },
      partial: [],
      attempts: { done: 4, failed: 0, late: 0, retried: 0 },
      // 3 of the prompt and 2 of the answer in each of four calls.
      tokens: 20,
      usd: null,
      staleness: { behind: { 0: 4 }, withheld: [] },
      without_reward: 0,
      equal_rewards: 0,
      seconds: expect.any(Number),
    });
    const found = await episodes();
    expect(found.map((one) => [one.episode_id, one.group_id, one.group_size, one.reward, one.sample])).toEqual([
      ['r/a/b c/0', 'r/a/b c', 2, 0, '0'],
      ['r/a/b c/1', 'r/a/b c', 2, 1, '1'],
      ['r/b/0', 'r/b', 2, 0.5, '0'],
      ['r/b/1', 'r/b', 2, 1.5, '1'],
    ]);
    for (const one of found) expect(one).toMatchObject({ closed: true, calls: 1, answer: 'four', outcome: 'unknown' });
    const { rows } = await at.db.query(`select task_id, query, ground_truth from traj.tasks order by task_id`);
    expect(rows).toEqual([
      { task_id: 'a/b c', query: '2+2?', ground_truth: '4' },
      { task_id: 'b', query: '3+3?', ground_truth: null },
    ]);
    const { rows: agents } = await at.db.query(`select distinct completed_agent_id as agent from facts.calls`);
    expect(agents).toEqual([{ agent: 'agent' }]);
  });

  it('Complaint 8: tries again what failed; the failed attempt has no reward and is no member of its group', async () => {
    work({ env: ['TOKEN'] }, { TOKEN: 'a-secret-token' });
    await request([{ task_id: 'a', prompt: 'x', reward: 1, fails: 'first' }]);
    expect(await result()).toMatchObject({
      episodes: ['r/a/0/a1', 'r/a/1/a1'],
      groups: { complete: 1, partial: 0 },
      attempts: { done: 2, failed: 2, late: 0, retried: 2 },
    });
    const found = await episodes();
    expect(found.map((one) => [one.episode_id, one.group_id, one.reward, one.outcome, one.attempt])).toEqual([
      ['r/a/0', null, null, 'error', 0],
      ['r/a/0/a1', 'r/a', 1, 'unknown', 1],
      ['r/a/1', null, null, 'error', 0],
      ['r/a/1/a1', 'r/a', 2, 'unknown', 1],
    ]);
    // The end of its output, but no value of a variable that the runner names.
    expect(found[0]!.stop_reason).toBe('Exit code 3: the tool server is down; my token is ***');
  });

  it('says why a group is partial, and leaves it out of the episodes', async () => {
    work({ retries: 0 });
    await request([
      { task_id: 'bad', prompt: 'x', fails: 'always' },
      { task_id: 'good', prompt: 'x', reward: 1 },
      { task_id: 'silent', prompt: 'x', reward: 1, silent: true },
      { task_id: 'unrewarded', prompt: 'x' },
    ]);
    const { groups, episodes: complete, partial } = await result();
    expect(groups).toEqual({ complete: 1, partial: 3 });
    expect(complete).toEqual(['r/good/0', 'r/good/1']);
    expect(
      partial.map(({ task_id, done, of, why }) => [task_id, done, of, why.map((one) => [one.code, one.samples])]),
    ).toEqual([
      ['bad', 0, 2, [['exit', 2]]],
      ['silent', 0, 2, [['nothing_recorded', 2]]],
      ['unrewarded', 0, 2, [['no_reward', 2]]],
    ]);
    expect((await episodes()).filter(({ reward }) => reward !== null).length).toBe(2);
  });

  it('ends an attempt at its deadline, and plays the sample again; at the deadline of the whole it ends with what is done by then', async () => {
    work({ timeout_s: 8, concurrency: 1 });
    await request(
      [
        { task_id: 'b', prompt: 'x', reward: 1 },
        { task_id: 'c', prompt: 'x', gate: join(folder, 'never') },
      ],
      { samples: 1, deadline_s: 7 },
    );
    work({ timeout_s: 8 });
    await requestJob(context, {
      job_id: 'again',
      kind: 'rollout',
      spec: { runner: 'team', tasks: [{ task_id: 'a', prompt: 'x', reward: 1, hangs: true }], samples: 1 },
    });
    const { groups, partial } = await result();
    expect(groups).toEqual({ complete: 1, partial: 1 });
    expect(partial[0]!.why).toEqual([
      { code: 'deadline', message: 'The rollout had 7 s and they were over.', samples: 1 },
    ]);
    expect(await waitForJob(at.db, 'again', { timeoutMs: 60_000 })).toMatchObject({
      episodes: ['again/a/0/a1'],
      attempts: { done: 1, failed: 1, retried: 1 },
    });
    expect((await episodes())[0]).toMatchObject({
      outcome: 'timeout',
      stop_reason: 'It did not end within 8 s.',
      reward: null,
    });
  });

  it('takes the reward from a command that sees the task and the output', async () => {
    const grade = join(folder, 'grade.mjs');
    writeFileSync(
      grade,
      `let text = ''; for await (const part of process.stdin) text += part;
       const { task, episode_id, output } = JSON.parse(text);
       console.log('graded'); console.log(JSON.stringify({ reward: task.worth, outcome: 'success', answer: episode_id + ' ' + output.trim() }));`,
    );
    work({ reward: { command: [process.execPath, grade] } });
    await request([{ task_id: 'a', prompt: 'x', worth: 0.25 }], { samples: 1 });
    await result();
    expect(await episodes()).toEqual([expect.objectContaining({ reward: 0.25, outcome: 'success', answer: 'r/a/0 ' })]);
  });

  it('fails before the first episode where the runner cannot work', async () => {
    work({ command: ['./no-such-program'] });
    await request([{ task_id: 'a', prompt: 'x' }]);
    await expect(result()).rejects.toThrow(/The program \\"\.\/no-such-program\\" of the runner is not there/);
    expect(await episodes()).toEqual([]);
    work({ env: ['NOT_THERE'] });
    await requestJob(context, {
      job_id: 'r2',
      kind: 'rollout',
      spec: { runner: 'team', tasks: [{ task_id: 'a' }], samples: 1 },
    });
    // Either worker may take it; neither can play.
    await expect(waitForJob(at.db, 'r2')).rejects.toThrow(/not there|names NOT_THERE/);
  });
});

describe('what a rollout may use', () => {
  it('ends the handing out of attempts, and the partial groups say so', async () => {
    work({ concurrency: 1 });
    // Each episode has one call of 5 tokens.
    const tasks = ['a', 'b', 'c'].map((task_id) => ({ task_id, prompt: 'x', reward: 1 }));
    await request(tasks, { samples: 1, budget: { tokens: 8 } });
    const { attempts, groups, partial, tokens } = await result();
    expect({ attempts, groups, tokens }).toEqual({
      attempts: { done: 2, failed: 0, late: 0, retried: 0 },
      groups: { complete: 2, partial: 1 },
      tokens: 10,
    });
    expect(partial[0]).toMatchObject({
      task_id: 'c',
      why: [{ code: 'budget', message: 'The budget of 8 tokens was used up: 10 recorded.', samples: 1 }],
    });
  });

  it('counts unknown as unknown: a budget that cannot be measured hands out nothing more', () => {
    const spent = { tokens: null, uncounted: 0, usd: null, unpriced: 0 };
    expect(overBudget({ budget: { tokens: 10, seconds: 60, usd: 1 } }, spent, 59)).toBeNull();
    for (const [more, age, sentence] of [
      [{ tokens: 10 }, 0, /10 tokens was used up: 10 recorded/],
      [{ tokens: 3, uncounted: 2 }, 0, /10 tokens cannot be held: 2 calls recorded without a count/],
      [{ usd: 1.5 }, 0, /1 USD was used up: 1.5 recorded/],
      [{ usd: 0.5, unpriced: 1 }, 0, /1 USD cannot be held: 1 call without a price/],
      [{}, 60, /60 s was used up/],
    ] as const)
      expect(overBudget({ budget: { tokens: 10, seconds: 60, usd: 1 } }, { ...spent, ...more }, age)?.message).toMatch(
        sentence,
      );
  });
});

describe('a sweep', () => {
  it('measures each rollout by the rewards and tokens of its accepted episodes, over tasks', async () => {
    work();
    const tasks = [
      { task_id: 'a', prompt: 'x', reward: 0, fails: 'first' },
      { task_id: 'b', prompt: 'x', reward: 2 },
    ];
    await request(tasks, { params: { agents: 2 } });
    await result();
    await at.project();
    const [swept, other] = [
      { rollout_id: 'r', params: { agents: 2 } },
      { rollout_id: 'none', params: {} },
    ];
    const size = { tasks: 2, samples: 2 };
    expect(await sweepPoints(at.db, [swept], size)).toEqual([
      {
        rollout_id: 'r',
        params: { agents: 2 },
        episodes: 4,
        tasks: 2,
        left_out: 0,
        without_reward: 0,
        // The rewards of the samples are 0 and 1, and 2 and 3.
        reward: 1.5,
        interval: { low: expect.any(Number), high: expect.any(Number) },
        tokens: 5,
      },
    ]);
    const { rows } = await at.db.query(`select distinct tags ->> 'agents' as agents from traj.episodes`);
    expect(rows).toEqual([{ agents: '2' }]);
    const nothing = { episodes: 0, tasks: 0, left_out: 2, reward: null, tokens: null };
    // What one rollout did not play in full is compared nowhere.
    expect(await sweepPoints(at.db, [swept, other], size)).toMatchObject([nothing, nothing]);
    await at.db.query(`update facts.episodes set group_id = null where episode_id = 'r/b/1'`);
    const [left] = await sweepPoints(at.db, [swept], size);
    expect(left).toMatchObject({ episodes: 2, tasks: 1, left_out: 1, reward: 0.5 });
  });
});

describe('weights that are behind', () => {
  const release = (release_id: string, checkpoint: string) => ({
    release_id,
    policies: { solver: checkpoint },
    teams: {},
    by: null,
  });

  it('are counted by the releases of other weights since theirs', () => {
    const releases = [release('1', 'a'), release('2', 'b'), release('3', 'b'), release('4', 'c')];
    expect(['a', 'b', 'c', 'd'].map((id) => releasesBehind(releases, 'solver', id))).toEqual([2, 1, 0, null]);
    expect(releasesBehind(releases, 'other', 'a')).toBe(0);
    // Back in force by a rollback.
    expect(releasesBehind([...releases, release('5', 'a')], 'solver', 'a')).toBe(0);
  });

  it('Complaint 5: withhold their episodes beyond the bound, and neither abort nor change the group', async () => {
    work();
    for (const [release_id, checkpoint] of [
      ['first', 'c-1'],
      ['second', 'c-2'],
    ])
      await recordRelease(context.log, {
        ...{ release_id: release_id!, policies: { solver: checkpoint! }, reason: null, by: 'test', source: '/test' },
        time: `2026-01-0${release_id === 'first' ? 1 : 2}T00:00:00Z`,
      });
    await request([{ task_id: 'a', prompt: 'x', reward: 1 }], { max_staleness: 0 });
    expect(await result()).toMatchObject({
      episodes: [],
      groups: { complete: 1, partial: 0 },
      staleness: { behind: { 1: 2 }, withheld: ['r/a/0', 'r/a/1'] },
    });
    expect((await episodes()).map(({ group_id, reward }) => [group_id, reward])).toEqual([
      ['r/a', 1],
      ['r/a', 2],
    ]);
  });
});

describe('tasks that are recorded already', () => {
  it('are chosen by a filter over what they are and how they went, and go to the team as they came', async () => {
    work();
    const easy = { task_id: 'easy', prompt: 'x', answer: '4', domain: 'sums', reward: 5 };
    const hard = { task_id: 'hard', prompt: 'y', domain: 'sums', tags: { long: true }, reward: -1 };
    await request([easy, hard, { task_id: 'other', prompt: 'z', domain: 'words', reward: 0 }]);
    await result();
    await at.project();
    const asked = { runner: 'team', samples: 1, tasks_where: 'task.domain = sums and mean_reward < 1' };
    const spec = await requestRollout(context, 'again', asked);
    expect(spec.tasks).toEqual([hard]);
    const before = await storedTasks(at.db, parseTaskFilter('task_id = easy', 'where'), '');
    expect(before).toEqual([easy]);
    expect(await storedTasks(at.db, parseTaskFilter('task.tags.long = true', 'where'), '')).toEqual([hard]);
    expect(await waitForJob(at.db, 'again', { timeoutMs: 60_000 })).toMatchObject({ episodes: ['again/hard/0'] });
    // The same request names the same tasks, whatever is recorded by then.
    expect((await requestRollout(context, 'again', asked)).tasks).toEqual([hard]);
    await expect(requestRollout(context, 'again', { ...asked, samples: 2 })).rejects.toThrow(/already a job again/);
    await expect(requestRollout(context, 'none', { ...asked, tasks_where: 'episodes > 9' })).rejects.toThrow(
      /No stored task fits "episodes > 9"/,
    );
  });
});

describe('a worker that ends', () => {
  it('leaves a rollout that another goes on with: nothing is played twice that was done', async () => {
    const gate = join(folder, 'gate');
    const first = new AbortController();
    const left = work({ concurrency: 2 }, {}, AbortSignal.any([first.signal, stop.signal]));
    await request([
      { task_id: 'a', prompt: 'x', reward: 1 },
      { task_id: 'b', prompt: 'x', reward: 1, gate },
    ]);
    await until(async () => (await attemptsOf(at.db, 'r')).filter(({ outcome }) => outcome === 'done').length === 2);
    await until(async () => (await attemptsOf(at.db, 'r')).some(({ state }) => state === 'running'));
    first.abort();
    await left;
    writeFileSync(gate, '');
    work({ retries: 0 });
    const { episodes: complete, attempts } = await result();
    expect(complete.filter((id) => id.startsWith('r/a'))).toEqual(['r/a/0', 'r/a/1']);
    expect(complete.length).toBe(4);
    expect(attempts.done).toBe(4);
    const { rows } = await at.db.query(
      `select group_id, count(*)::int as n from facts.episodes where group_id is not null group by 1 order by 1`,
    );
    expect(rows).toEqual([
      { group_id: 'r/a', n: 2 },
      { group_id: 'r/b', n: 2 },
    ]);
    const { rows: jobs } = await at.db.query(`select attempts from troupe.job_queue where job_id = 'r'`);
    expect(jobs).toEqual([{ attempts: 1 }]);
  });

  it('an attempt that ends after it was lost is kept as late; one that ends twice is a duplicate', async () => {
    work();
    await request([{ task_id: 'a', prompt: 'x', reward: 1 }], { samples: 1 });
    await result();
    const late = {
      at: '2026-01-01T00:00:00.000Z',
      outcome: 'success',
      stop_reason: 'slow',
      answer: 'x',
      reward: 1,
    } as const;
    const end = { outcome: 'done', result: late, error: null } as const;
    expect(await endAttempts(at.db, [{ id: 'r/a/0', token: 1, end }])).toEqual(['duplicate']);
    expect(await endAttempts(at.db, [{ id: 'r/a/0', token: 0, end }])).toEqual(['late']);
    expect(await endAttempts(at.db, [{ id: 'r/a/9', token: 1, end }])).toEqual(['unknown']);
    await at.db.query(
      `update troupe.job_queue set outcome = 'failed', error = '{"code":"lost","message":"gone"}' where job_id = 'r/a/0'`,
    );
    expect(await endAttempts(at.db, [{ id: 'r/a/0', token: 1, end }])).toEqual(['late']);
    expect(await endAttempts(at.db, [{ id: 'r/a/0', token: 1, end }])).toEqual(['duplicate']);
    expect((await attemptsOf(at.db, 'r'))[0]).toMatchObject({
      outcome: 'failed',
      result: { late: true },
      error: { code: 'lost' },
    });
  });
});

describe('what the team gets', () => {
  it('is no secret of ours, and a key only where one is needed: scoped, revoked at the end, and recorded nowhere', async () => {
    const seen = join(folder, 'seen');
    await createKey(at.db, { name: 'mine', scopes: ['read'], expiresAt: null });
    work(
      { env: ['SEEN'], concurrency: 1 },
      { SEEN: seen, DATABASE_URL: 'postgres://me:pw@host/db', TROUPE_API_KEY: 'x'.repeat(40) },
    );
    await request([{ task_id: 'a', prompt: 'x', reward: 1 }], { samples: 2, seed: 7, params: { agents: 2 } });
    expect(await result()).toMatchObject({ groups: { complete: 1 } });
    const [env] = readFileSync(seen, 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(env).toMatchObject({
      TROUPE_URL: url,
      TROUPE_ROLLOUT: 'r',
      TROUPE_EPISODE: 'r/a/0',
      TROUPE_GROUP: 'r/a',
      TROUPE_TASK_ID: 'a',
      TROUPE_SAMPLE: '0',
      TROUPE_PARAMS: '{"agents":2}',
      TROUPE_ATTEMPT: '0',
      OPENAI_BASE_URL: `${url}/e/r%2Fa%2F0/a/agent/v1`,
      ANTHROPIC_BASE_URL: `${url}/e/r%2Fa%2F0/a/agent`,
      TROUPE_EPISODE_URL: `${url}/e/r%2Fa%2F0`,
      TROUPE_SEED: expect.stringMatching(/^\d+$/),
      TROUPE_DEADLINE: expect.stringMatching(/^20.*Z$/),
    });
    expect(env.DATABASE_URL).toBeUndefined();
    expect(env.TROUPE_API_KEY).toBeUndefined();
    expect(env.TROUPE_KEY).toMatch(/^troupe_/);
    expect(env.OPENAI_API_KEY).toBe(env.TROUPE_KEY);
    const made = (await listKeys(at.db)).find(({ name }) => name === 'rollout r')!;
    expect(made).toMatchObject({ scopes: ['ingest'], revoked_at: expect.any(String), expires_at: expect.any(String) });
    const { rows } = await at.db.query(
      `select count(*)::int as n from troupe.events where position($1 in data::text) > 0`,
      [env.TROUPE_KEY],
    );
    expect(rows).toEqual([{ n: 0 }]);
    const { rows: queue } = await at.db.query(
      `select count(*)::int as n from troupe.job_queue q where position($1 in to_json(q)::text) > 0`,
      [env.TROUPE_KEY],
    );
    expect(queue).toEqual([{ n: 0 }]);
  });
});
