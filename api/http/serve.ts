/** Where the app listens: on this machine only, unless the configuration explicitly sets another address. */
import type { AddressInfo } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { got, TroupeError } from '../../errors.ts';
import { isLoopback } from './origin.ts';

export type ServeOptions = {
  readonly host: string;
  /** 0 takes any free port. */
  readonly port: number;
  /** True where every request needs a key: then other machines may reach the address too. */
  readonly exposed?: boolean;
};

export type Listening = { readonly url: string; readonly port: number; readonly close: () => Promise<void> };

/**
 * Listens, and returns the address. Throws `port_taken` where another program listens there, `usage` for an address beyond
 * loopback without `exposed`, `config_invalid` for one that cannot be listened on.
 */
export async function serve(app: FastifyInstance, { host, port, exposed = false }: ServeOptions): Promise<Listening> {
  if (!isLoopback(host) && !exposed) {
    throw new TroupeError(
      'usage',
      `Without an API key Troupe listens on this machine only: whoever reached ${host} could read and change everything. ` +
        'Make a key first (troupe key create --scopes admin --name first), set TROUPE_API_KEY, or use --host 127.0.0.1.',
      { field: 'host', expected: '127.0.0.1, localhost or ::1', got: got(host) },
    );
  }
  try {
    await app.listen({ host, port });
  } catch (cause) {
    throw listenError(cause as NodeJS.ErrnoException, { host, port });
  }
  const address = app.server.address() as AddressInfo;
  const name = host.includes(':') ? `[${host}]` : host;
  return { url: `http://${name}:${address.port}`, port: address.port, close: () => app.close() };
}

/** Why nothing could listen there, and what to do; `flag` is the option that names the port. */
export function listenError(
  cause: NodeJS.ErrnoException,
  { host, port, flag = '--port' }: { readonly host: string; readonly port: number; readonly flag?: string },
): TroupeError {
  const place = `${host} port ${port}`;
  const detail = { got: String(cause.code), cause };
  switch (cause.code) {
    case 'EADDRINUSE':
      return new TroupeError(
        'port_taken',
        `Another program listens on ${place}; stop it, or choose another port with ${flag}.`,
        detail,
      );
    case 'EACCES':
      return new TroupeError(
        'config_invalid',
        `This user may not listen on ${place}; choose a port from 1024 with ${flag}.`,
        detail,
      );
    default:
      return new TroupeError(
        'config_invalid',
        `Cannot listen on ${place}: ${cause.message}. Set TROUPE_HOST or --host to an address of this machine.`,
        detail,
      );
  }
}
