import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { expect, it } from 'vitest';
import { expectBelow } from '../support/measured.ts';

it('A team whose server is away ends soon after SIGTERM, and says what was not sent', async () => {
  // It takes connections and answers none.
  const away = createServer((socket) => socket.destroy());
  away.listen(0, '127.0.0.1');
  await once(away, 'listening');
  const url = `http://127.0.0.1:${(away.address() as AddressInfo).port}`;
  const team = ['--import', 'tsx', 'examples/answer-trees/team.ts', '--url', url];
  const child = spawn(process.execPath, team, { stdio: ['ignore', 'ignore', 'pipe'] });
  let output = '';
  child.stderr.on('data', (text) => {
    output += text;
  });
  const ended = once(child, 'exit');
  await once(away, 'connection');
  child.kill('SIGTERM');
  const stopped = performance.now();
  expect((await ended)[0]).toBe(1);
  expectBelow(performance.now() - stopped, 8000);
  expect(output).toContain('1 events were not sent');
  away.close();
}, 60_000);
