import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { errorLine } from '../../api/operations/rollout/error-line.ts';
import { summary } from '../../api/operations/rollout/text.ts';
import { table } from '../../cli/output.ts';
import { registerProcess } from '../../store/queue/jobs/processes.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { type Shell, warmShell } from './support/troupe.ts';

describe('troupe rollout refuses what would never be played', () => {
  let database: TestDatabase;
  let at: Shell;
  beforeAll(async () => {
    database = await freshDatabase();
    at = warmShell({ DATABASE_URL: database.url, TROUPE_RUNNERS: '{"solver":{"command":["true"]}}' });
    writeFileSync(join(at.folder, 'tasks.jsonl'), '{"task_id":"a","prompt":"x"}\n');
    writeFileSync(join(at.folder, 'bad.jsonl'), '{"task_id":"a"}\n{"task_id":"a"}\n');
  });
  afterAll(async () => {
    await at.remove();
    await database.close();
  });
  const rollout = (...args: readonly string[]) => at.run(['rollout', '--samples', '2', ...args]);

  it.each([
    [['--runner', 'slover', '--tasks', 'tasks.jsonl'], 1, /no runner "slover"; it has solver/],
    [['--runner', 'solver', '--tasks', 'bad.jsonl'], 2, /The task "a" stands twice/],
    [['--runner', 'solver', '--tasks', 'tasks.jsonl', '--id', 'a/b'], 2, /id of a rollout should have/],
    [['--runner', 'solver'], 2, /one of tasks, tasks_where and replay/],
    [['--runner', 'solver', '--tasks-where', 'task.domian = x'], 2, /Did you mean task.domain/],
    [['--runner', 'solver', '--tasks-where', 'task.domain = x'], 1, /No stored task fits "task.domain = x"/],
    [
      ['--runner', 'solver', '--tasks', 'tasks.jsonl', '--budget', 'minutes=3'],
      2,
      /--budget should have one of tokens, seconds, usd, but it is "minutes=3"/,
    ],
    [
      ['--runner', 'solver', '--tasks', 'tasks.jsonl'],
      5,
      /`run work` and `run project` are not running. Start `troupe up`/,
    ],
  ])('%j', async (args, code, sentence) => {
    const ended = await rollout(...args);
    expect([ended.code, ended.err]).toEqual([code, expect.stringMatching(sentence)]);
    const { rows } = await database.db.query('select count(*)::int as n from troupe.job_queue');
    expect(rows).toEqual([{ n: 0 }]);
  });
});

it('a rollout that failed says at the next request of its id that this is what it ended with', async () => {
  const database = await freshDatabase();
  const at = warmShell({ DATABASE_URL: database.url, TROUPE_RUNNERS: '{"solver":{"command":["true"]}}' });
  writeFileSync(join(at.folder, 'tasks.jsonl'), '{"task_id":"a","prompt":"x"}\n');
  const leave = await Promise.all(
    (['work', 'project'] as const).map((role) => registerProcess(database.db, { processId: role, role })),
  );
  const play = () => at.run(['rollout', '--samples', '2', '--runner', 'solver', '--tasks', 'tasks.jsonl', '--id', 'r']);
  const first = play();
  const failed = () =>
    database.db.query(
      `update troupe.job_queue set state = 'finished', outcome = 'failed', error = '{"code": "x", "message": "No PATH."}'
       where job_id = 'r' and state <> 'finished'`,
    );
  await expect.poll(async () => (await failed()).count, { timeout: 30_000 }).toBe(1);
  expect((await first).err).toMatch(/The rollout r failed \(x\): No PATH\.\n/);
  expect((await play()).err).toContain('No PATH. It ended so before this request: choose another id to play again.');
  for (const left of leave) await left();
  await at.remove();
  await database.close();
}, 60_000);

it('the summary says why groups are partial, and what has no reward or no signal', () => {
  const text = summary(
    {
      rollout_id: 'r',
      episodes: ['r/a/0', 'r/a/1'],
      groups: { complete: 1, partial: 1 },
      partial: [
        {
          group_id: 'r/b',
          task_id: 'b',
          done: 1,
          of: 2,
          why: [{ code: 'timeout', message: 'It did not end within 8 s.', samples: 1 }],
        },
      ],
      attempts: { done: 3, failed: 2, late: 0, retried: 1 },
      tokens: null,
      usd: null,
      staleness: { behind: { 0: 2, 1: 1, unknown: 1 }, withheld: ['r/a/1'] },
      without_reward: 2,
      equal_rewards: 1,
      seconds: 12.34,
    },
    { table },
  );
  expect(text).toContain(
    'Rollout r: 3 episodes done in 12.3 s; 2 attempts failed, tried again 1, late 0; tokens unknown.',
  );
  expect(text).toContain('Groups: 1 complete, 1 partial.');
  expect(text).toMatch(/b +1 +2 +1 +timeout: It did not end within 8 s\./);
  expect(text).toContain(
    'Releases that the weights are behind: 1 (1 episode), unknown (1 episode); withheld: 1 episode.',
  );
  expect(text).toContain('Without a reward: 2 episodes');
  expect(text).toContain('All rewards are equal in 1 complete group,');
});

describe('of the last words of a program that failed the line is shown that names its error', () => {
  const python = `Exit code 1: ^^^^^
  File "/site-packages/openai/_base_client.py", line 1248, in request
    raise self._make_status_error_from_response(err.response) from None
openai.InternalServerError: Error code: 503 - No process serves policy:team now.`;
  const node = `Exit code 1: file:///team.mjs:3
throw new Error('no model');
      ^

Error: no model
    at file:///team.mjs:3:7

Node.js v22.1.0`;

  it.each([
    ['of Python', python, 'openai.InternalServerError: Error code: 503 - No process serves policy:team now.'],
    ['of Node', node, 'Error: no model'],
    ['that is alone', 'It did not end within 8 s.', 'It did not end within 8 s.'],
    ['that only has indented lines', 'Exit code 1: x\n  at y', 'Exit code 1: x\n  at y'],
  ])('%s', (_, words, line) => expect(errorLine(words)).toBe(line));
});
