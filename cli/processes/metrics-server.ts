/** `/metrics`, `/healthz` and `/readyz` of a process that has no API of its own. It answers without a key, so it counts and names nothing that was recorded. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { readiness } from '../../api/health/readiness.ts';
import { processLog } from '../../api/http/log.ts';
import { answerMalformed } from '../../api/http/malformed.ts';
import { got, TroupeError } from '../../errors.ts';
import { readSchema } from '../../migrations/migrate.ts';
import type { Context } from '../context.ts';
import { VERSION } from '../version.ts';

export type MetricsServer = { readonly url: string; readonly close: () => void };

const TEXT = 'text/plain; version=0.0.4; charset=utf-8';
const JSON_TYPE = 'application/json';

/**
 * Listens at the port; 0 takes any free one.
 * @throws TroupeError `port_taken`, `config_invalid`
 */
export async function serveMetrics(
  { db, log, config: { host } }: Pick<Context, 'db' | 'log' | 'config'>,
  { role, port, metrics }: { readonly role: string; readonly port: number; readonly metrics: () => Promise<string> },
): Promise<MetricsServer> {
  const known = readSchema();
  const answers: Readonly<Record<string, () => Promise<{ status?: number; type: string; body: string }>>> = {
    '/metrics': async () => ({ type: TEXT, body: await metrics() }),
    '/healthz': async () => ({ type: JSON_TYPE, body: JSON.stringify({ status: 'ok', version: VERSION, role }) }),
    '/readyz': async () => {
      const state = await readiness({ db, log, known, ingestOnly: false });
      // Reasons may name what was sent; whoever has a key asks the API.
      const { status, database, schema, log: logState } = state;
      const body = JSON.stringify({ status, database, schema, log: logState });
      return { status: status === 'not_ready' ? 503 : 200, type: JSON_TYPE, body };
    },
  };
  const server = createServer(async (request, response) => {
    const answer = answers[(request.url ?? '').split('?', 1)[0]!];
    if (answer === undefined || request.method !== 'GET') {
      response.writeHead(404).end();
      return;
    }
    try {
      const { status = 200, type, body } = await answer();
      response.writeHead(status, { 'content-type': type }).end(body);
    } catch (err) {
      processLog().error({ err }, `The answer to ${request.url} failed.`);
      response.writeHead(500).end();
    }
  });
  server.on('clientError', (error, socket) => answerMalformed(error, socket as Socket));
  await listen(server, host, port);
  server.unref();
  const { port: taken } = server.address() as AddressInfo;
  const name = host.includes(':') ? `[${host}]` : host;
  return {
    url: `http://${name}:${taken}`,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}

function listen(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (cause: NodeJS.ErrnoException) => {
      const taken = cause.code === 'EADDRINUSE';
      const text = taken
        ? `Another program listens on ${host} port ${port}; choose another with --metrics-port.`
        : `Cannot listen on ${host} port ${port}: ${cause.message}. Choose another port with --metrics-port.`;
      reject(new TroupeError(taken ? 'port_taken' : 'config_invalid', text, { got: got(cause.code), cause }));
    });
    server.listen(port, host, () => resolve());
  });
}
