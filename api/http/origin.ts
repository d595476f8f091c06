/**
 * Who may call a server, keys or not: programs on this machine, and the page it serves itself. A page of another site can reach
 * a loopback address too, by a form or by a name that it makes point here; its Host or Origin header shows that.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { isIP } from 'node:net';
import { got, TroupeError } from '../../errors.ts';

export type OriginOptions = {
  /** Names beyond this machine's own that the Host header may have. */
  readonly hosts?: readonly string[];
  /** True where the server listens beyond loopback on purpose: any literal address is its own, since only names can be made to point here. */
  readonly exposed?: boolean;
};

/** True for an address that only this machine can reach. */
export const isLoopback = (host: string): boolean =>
  host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'));

/** The names of the setting `hosts`. @throws TroupeError `config_invalid` for one that no Host header can have */
export function readHosts(setting: string | null): readonly string[] {
  if (setting === null) return [];
  const names = setting.split(',').map((name) => name.trim().toLowerCase());
  const wrong = names.find((name) => !/^[a-z0-9._-]+$/.test(name));
  if (wrong === undefined) return names;
  throw new TroupeError(
    'config_invalid',
    `The setting hosts (TROUPE_HOSTS) should be names without ports, separated by commas, but it has ${got(wrong)}.`,
    { field: 'hosts' },
  );
}

/** Why a request that names several hosts is refused, or null: Node keeps the first, a proxy may have gone by another (RFC 9112, 3.2). */
export function severalHosts(rawHeaders: readonly string[]): TroupeError | null {
  const hosts = rawHeaders.filter((_, i) => i % 2 === 1 && rawHeaders[i - 1]!.toLowerCase() === 'host');
  if (hosts.length < 2) return null;
  return new TroupeError('usage', `A request has one Host header; this one has ${hosts.length}.`, { field: 'Host' });
}

/** Why these headers are refused, or null. An Origin must be the very host that was asked. */
export function foreignOrigin(
  headers: IncomingHttpHeaders,
  { hosts = [], exposed = false }: OriginOptions,
): TroupeError | null {
  const host = headers.host ?? '';
  const name = hostName(host);
  const isOwn = name !== null && (isLoopback(name) || hosts.includes(name) || (exposed && isIP(name) !== 0));
  if (!isOwn) {
    return new TroupeError(
      'forbidden_origin',
      `The Host header should name this machine, such as 127.0.0.1 or localhost; it is ${got(host)}.`,
      {
        field: 'Host',
        expected: ['127.0.0.1', 'localhost', '[::1]', ...hosts].join(', '),
        got: got(host),
      },
    );
  }
  const { origin } = headers;
  if (origin === undefined || origin === `http://${host}` || origin === `https://${host}`) return null;
  return new TroupeError(
    'forbidden_origin',
    `Only the page that this server serves may call it from a browser; the Origin is ${got(origin)}.`,
    {
      field: 'Origin',
      expected: `http://${host}`,
      got: got(origin),
    },
  );
}

/** The host of `name:port`, in lower case and without the brackets of IPv6; null where it is not one. */
function hostName(host: string): string | null {
  const match = /^(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::\d{1,5})?$/i.exec(host);
  return (match?.[1] ?? match?.[2])?.toLowerCase() ?? null;
}
