/** Programs in process groups of their own: nothing of one is left, however it ends. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { environmentOf } from '../../../trainer/loop/play/by-command.ts';
import { checkProgram, runCommand } from '../../../trainer/loop/play/command.ts';
import { playOf } from '../../../trainer/loop/play/play.ts';
import { type CommandRunner, readRunners } from '../../../trainer/loop/play/runners.ts';
import { rewardLine } from '../../../trainer/loop/rewards/score.ts';
import { startProgram } from '../../store/support/process.ts';

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'troupe-command-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const PATH = process.env.PATH!;
const run = (script: string, { timeoutS = 30, input = '', signal = new AbortController().signal } = {}) =>
  runCommand(['sh', '-c', script, 'team', folder], { env: { PATH, GREETING: 'hello' }, input, timeoutS, signal });
const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
};
const gone = async (pid: number): Promise<boolean> => {
  for (let tries = 0; tries < 250 && isAlive(pid); tries++) await new Promise((resolve) => setTimeout(resolve, 20));
  return !isAlive(pid);
};
const written = (file: string): number => Number(readFileSync(join(folder, file), 'utf8').trim());

it('it reads its input, sees its environment and no other, and its output and exit code come back', async () => {
  // biome-ignore lint/suspicious/noTemplateCurlyInString: the shell replaces it
  const ran = await run('read line; echo "$GREETING $line ${HOME:-nothing}"; echo oops >&2; exit 7', {
    input: 'you\n',
  });
  expect(ran).toEqual({ code: 7, ended: null, stdout: 'hello you nothing\n', stderr: 'oops\n' });
  expect(await run('exit 0', { input: 'x'.repeat(1_000_000) })).toMatchObject({ code: 0, ended: null });
});

it('of a long output the end is kept', async () => {
  const { stdout } = await run('i=0; while [ $i -lt 20000 ]; do echo "a line of some length $i"; i=$((i+1)); done');
  expect(stdout.length).toBeLessThanOrEqual(256 * 1024);
  expect(stdout.endsWith('a line of some length 19999\n')).toBe(true);
});

it('what it left in the background ends with it', async () => {
  const ran = await run('sleep 60 & echo $! > $1/left; exit 0');
  expect(ran.code).toBe(0);
  expect(await gone(written('left'))).toBe(true);
});

it('a child in a session of its own that holds the output does not keep the program from having ended', async () => {
  const ran = await run('echo said; setsid sleep 4 & exit 0', { timeoutS: 2 });
  expect(ran).toEqual({ code: 0, ended: null, stdout: 'said\n', stderr: '' });
});

it('at its deadline the whole group ends, one that ignores SIGTERM too', async () => {
  const ran = await run('trap "" TERM; sleep 60 & echo $! > $1/stubborn; wait; sleep 60', { timeoutS: 0.5 });
  expect(ran.ended).toBe('timeout');
  expect(await gone(written('stubborn'))).toBe(true);
});

it('one that is stopped may clean up', async () => {
  const stop = new AbortController();
  const running = run('trap "echo cleaned; exit 0" TERM; echo $$ > $1/started; sleep 60 & wait', {
    signal: stop.signal,
  });
  for (let tries = 0; tries < 500; tries++) {
    try {
      if (written('started') > 0) break;
    } catch {}
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  stop.abort();
  expect(await running).toMatchObject({ ended: 'stopped', stdout: 'cleaned\n' });
});

it('P34: it ends with the process that runs it, when that is killed by SIGKILL', async () => {
  const program = await startProgram('../../trainer/rollouts/hold-program.ts', join(folder, 'orphan'));
  let pid = 0;
  for (let tries = 0; tries < 1500 && !(pid > 0); tries++) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    try {
      pid = written('orphan');
    } catch {}
  }
  expect(isAlive(pid)).toBe(true);
  await program.kill();
  expect(await gone(pid)).toBe(true);
});

it('a program that is not there is named with where it was looked for', () => {
  expect(() => checkProgram('no-such-program-here', PATH)).toThrow(
    /"no-such-program-here" of the runner is in no folder of PATH/,
  );
  expect(() => checkProgram('./package.json', PATH)).toThrow(/is not there or cannot be run; it was looked for at \//);
  expect(() => checkProgram('sh', PATH)).not.toThrow();
});

it('the last JSON line with a number reward is the reward; text, null and NaN are none', () => {
  expect(rewardLine('{"reward":0.5}\nlog\n{"reward":1,"answer":{"x":4},"outcome":"success"}\nbye\n')).toEqual({
    reward: 1,
    answer: '{"x":4}',
    outcome: 'success',
  });
  expect(rewardLine('{"reward":0.5}\n{"reward":"1"}\n{"reward":null}\n{"step":3}\n{broken')).toEqual({
    reward: 0.5,
    answer: null,
    outcome: null,
  });
  expect(rewardLine('reward: 1\n')).toBe(null);
});

it('where no key is needed a client gets the word troupe, and no TROUPE_KEY', () => {
  const [runner] = readRunners({ team: { command: ['x'], env: ['MINE', 'UNSET'] } });
  const attempt = {
    id: 'r/t/0',
    token: 1,
    spec: { rollout: 'r', task: 0, sample: 0, attempt: 0 },
    startedAt: '2026-01-01T00:00:00Z',
    deadlineAt: '2026-01-01T00:10:00Z',
    secondsLeft: 600,
  };
  const env = environmentOf(
    playOf({ runner: 'team', tasks: [{ task_id: 't' }], samples: 1 }, attempt),
    { task: '/tmp/task.json', team: null },
    {
      runner: runner as CommandRunner,
      entry: { url: 'http://h:1', key: null },
      env: { PATH: '/bin', MINE: 'yes', OTHER: 'no', DATABASE_URL: 'postgres://secret' },
    },
  );
  expect(env).toMatchObject({ PATH: '/bin', MINE: 'yes', OPENAI_API_KEY: 'troupe', TROUPE_TASK: '/tmp/task.json' });
  for (const name of ['OTHER', 'DATABASE_URL', 'TROUPE_KEY', 'UNSET', 'TROUPE_TEAM']) expect(env[name]).toBeUndefined();
});
