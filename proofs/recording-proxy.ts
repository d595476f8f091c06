/** A proxy that keeps every request that went through it, so that it can be sent again byte for byte. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import { buffer } from 'node:stream/consumers';

export type Sent = {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer<ArrayBuffer>;
  readonly status: number;
};

/** Listens on a free port of this machine and hands everything on to `target`. */
export async function recordingProxy(target: string): Promise<{
  readonly url: string;
  readonly sent: readonly Sent[];
  readonly close: () => void;
}> {
  const sent: Sent[] = [];
  const server = createServer(async (request, response) => {
    const headers = Object.fromEntries(
      Object.entries(request.headers).filter(
        (one): one is [string, string] =>
          typeof one[1] === 'string' && /^(?:content-(?:type|encoding)$|troupe-|x-claude-code-)/.test(one[0]),
      ),
    );
    const body = Buffer.from(await buffer(request));
    const asked = { method: request.method ?? 'GET', path: request.url ?? '/', headers, body };
    const answer = await send(target, asked);
    sent.push({ ...asked, status: answer.status });
    const { 'content-type': type = 'application/json' } = Object.fromEntries(answer.headers);
    response.writeHead(answer.status, { 'content-type': type }).end(Buffer.from(await answer.arrayBuffer()));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  return {
    url: `http://127.0.0.1:${port}`,
    sent,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

export const send = (target: string, { method, path, headers, body }: Omit<Sent, 'status'>): Promise<Response> =>
  fetch(`${target}${path}`, { method, headers, ...(method === 'GET' ? {} : { body }) });
