import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { watchServer } from '../../api/gateway/upstream/server-watch.ts';
import { readUpstreams } from '../../api/gateway/upstream/settings.ts';

describe('a model server outside of Troupe that is watched', () => {
  let server: Server;
  let status = 200;
  const listen = async (port: number): Promise<number> => {
    server = createServer((_, response) => response.writeHead(status).end('{}')).listen(port, '127.0.0.1');
    await once(server, 'listening');
    return (server.address() as AddressInfo).port;
  };
  const stop = async (): Promise<void> => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  const until = async (holds: () => boolean): Promise<void> => {
    for (const deadline = performance.now() + 5000; !holds(); await sleep(10))
      if (performance.now() > deadline) throw new Error('it did not happen within 5 s');
  };
  afterEach(stop);

  it('is known to be gone while nobody asks it, and to be back', async () => {
    status = 200;
    const port = await listen(0);
    const [upstream] = readUpstreams({ gpu: { base_url: `http://127.0.0.1:${port}/v1` } }, {});
    const reported: (string | null)[] = [];
    const watch = watchServer(upstream!, (why) => reported.push(why), { everyMs: 20 });
    try {
      await sleep(100);
      expect([watch.answers(), reported]).toEqual([true, []]);
      await stop();
      await until(() => !watch.answers());
      expect(reported).toEqual([expect.stringContaining('gpu')]);
      await listen(port);
      await until(watch.answers);
      status = 502;
      await until(() => !watch.answers());
      expect(reported.slice(1)).toEqual([null, 'The model server gpu answers with 502.']);
    } finally {
      watch.close();
    }
  });
});
