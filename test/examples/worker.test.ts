import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, it } from 'vitest';

it('A team whose server is away ends soon after SIGTERM, and says what was not sent', async () => {
  const team = ['--import', 'tsx', 'examples/answer-trees/team.ts', '--url', 'http://127.0.0.1:9'];
  const child = spawn(process.execPath, team, { stdio: ['ignore', 'ignore', 'pipe'] });
  let said = '';
  child.stderr.on('data', (text) => {
    said += text;
  });
  const ended = once(child, 'exit');
  await new Promise((resolve) => setTimeout(resolve, 4000));
  expect(child.exitCode).toBeNull();
  const stopped = performance.now();
  child.kill('SIGTERM');
  expect((await ended)[0]).toBe(1);
  expect(performance.now() - stopped).toBeLessThan(8000);
  expect(said).toContain('1 events were not sent');
}, 60_000);
