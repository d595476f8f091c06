import { expect, it } from 'vitest';
import { type CommandRunner, findRunner, missingVariables, readRunners } from '../../../trainer/loop/play/runners.ts';

it('a runner is read with its defaults', () => {
  expect(readRunners({ solver: { command: ['python3', 'team.py'] } })).toEqual([
    {
      name: 'solver',
      by: 'command',
      command: ['python3', 'team.py'],
      env: [],
      timeoutS: 600,
      concurrency: 4,
      retries: 1,
      agent: 'agent',
      url: null,
      reward: { from: 'team' },
    },
  ]);
  const reward = { command: ['./grade'], timeout_s: 5 };
  expect((readRunners({ a: { command: ['x'], reward } })[0] as CommandRunner).reward).toEqual({
    from: 'command',
    command: ['./grade'],
    timeoutS: 5,
  });
  expect(readRunners(null)).toEqual([]);
});

it.each([
  [{ 'a/b': { command: ['x'] } }, 'a name in runners'],
  [{ a: 'python3 team.py' }, 'runners.a should be'],
  [{ a: {} }, 'runners.a should be a map with command, webhook or workers'],
  [{ a: { command: 'python3 team.py' } }, 'runners.a.command should be a list'],
  [{ a: { command: ['x'], timeout: 5 } }, 'runners.a has no "timeout". Did you mean timeout_s?'],
  [{ a: { command: ['x'], timeout_s: 0 } }, 'runners.a.timeout_s should be at least 0.1'],
  [{ a: { command: ['x'], concurrency: 1.5 } }, 'runners.a.concurrency should be a whole number'],
  [{ a: { command: ['x'], env: ['KEY=secret'] } }, 'runners.a.env should be a list of names'],
  [{ a: { command: ['x'], url: 'http://me:pw@host' } }, 'runners.a.url should be an address'],
  [{ a: { workers: true, command: ['x'] } }, 'runners.a should be a map with command, webhook or workers'],
  [{ a: { workers: false } }, 'runners.a should be a map with command, webhook or workers'],
  [{ a: { command: ['x'], reward: 'sql' } }, 'runners.a.reward should be'],
  [{ a: { command: ['x'], reward: { command: [] } } }, 'runners.a.reward.command should be a list'],
])('%j is refused: %s', (setting, sentence) => {
  expect(() => readRunners(setting)).toThrow(
    expect.objectContaining({ code: 'config_invalid', message: expect.stringContaining(sentence) }),
  );
});

it('a password in an address is not shown', () => {
  expect(() => readRunners({ a: { command: ['x'], url: 'http://me:pw@host' } })).not.toThrow(/pw/);
});

it('an unknown runner is answered with those that there are', () => {
  const runners = readRunners({ solver: { command: ['x'] } });
  expect(() => findRunner(runners, 'slover')).toThrow(/no runner "slover"; it has solver/);
  expect(() => findRunner([], 'solver')).toThrow(/the setting runners is empty/);
});

it('variables that a runner passes on and that are not there are found, with the setting that names them', () => {
  const [runner] = readRunners({ solver: { command: ['x'], env: ['MODEL', 'HERE'] } }) as [CommandRunner];
  expect(missingVariables(runner, { HERE: '' })).toEqual({ field: 'runners.solver.env', missing: ['MODEL'] });
});
