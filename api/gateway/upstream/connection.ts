/** HTTP requests to a model server. Responses are streamed, redirects are not followed, and the address is checked when connecting. */
import { lookup as systemLookup } from 'node:dns';
import http, { type ClientRequest, type IncomingMessage, type OutgoingHttpHeaders } from 'node:http';
import https from 'node:https';
import type { LookupFunction } from 'node:net';
import { TroupeError } from '../../../errors.ts';
import { mayReach } from './address.ts';
import type { Upstream } from './settings.ts';

type UpstreamRequest = {
  readonly method: 'GET' | 'POST';
  /** Below the base address, such as `/chat/completions`. */
  readonly path: string;
  readonly headers: OutgoingHttpHeaders;
  readonly body?: Uint8Array;
  /** Aborts the request and its response. */
  readonly signal?: AbortSignal;
  /** How long the server may be silent, in milliseconds. Default: its setting. */
  readonly timeoutMs?: number;
};

export type Connection = {
  /**
   * The response once its headers have arrived, whatever its status. Throws `upstream_failed`, `upstream_timeout`, or `interrupted`;
   * reading the body throws the same.
   */
  readonly send: (sent: UpstreamRequest) => Promise<IncomingMessage>;
  readonly close: () => void;
};

/** Connections to one server, reused between calls. */
export function connectUpstream(upstream: Upstream, lookup: typeof systemLookup = systemLookup): Connection {
  const { name, baseUrl, isPrivate, timeoutMs } = upstream;
  const { hostname, protocol } = new URL(baseUrl);
  const { Agent, request } = protocol === 'https:' ? https : http;
  const agent = new Agent({ keepAlive: true });

  const look = lookupAllowed(hostname, isPrivate, (host) => notAllowed(name, host), lookup);

  const attempt = ({ method, path, headers, body, signal, timeoutMs: patience = timeoutMs }: UpstreamRequest) =>
    new Promise<IncomingMessage>((resolve, reject) => {
      const asked: ClientRequest = request(`${baseUrl}${path}`, {
        method,
        agent,
        lookup: look,
        headers: body === undefined ? headers : { ...headers, 'content-length': body.byteLength },
        ...(signal ? { signal } : {}),
      });
      let answer: IncomingMessage | null = null;
      asked.setTimeout(patience, () => (answer ?? asked).destroy(tooLate(name, patience)));
      asked.once('response', (response) => {
        answer = response;
        // It may fail before it is read; its reader then gets the error.
        answer.on('error', () => {});
        resolve(answer);
      });
      asked.once('error', (error) => reject(Object.assign(error, { reused: asked.reusedSocket })));
      asked.end(body);
    });

  return {
    send: async (sent) => {
      try {
        return await attempt(sent).catch((error) => {
          // A reused connection that the server had just closed: the server has seen nothing of this request.
          if (error.reused && error.code === 'ECONNRESET' && !sent.signal?.aborted) return attempt(sent);
          throw error;
        });
      } catch (error) {
        throw upstreamFailure(error, name, sent.signal);
      }
    },
    close: () => agent.destroy(),
  };
}

/** Resolves a name to the addresses that the configuration allows for `hostname`; fails with `refused` if there is none. */
export function lookupAllowed(
  hostname: string,
  isPrivate: boolean,
  refused: (host: string) => Error,
  lookup: typeof systemLookup = systemLookup,
): LookupFunction {
  return (host, options, answer) => {
    lookup(host, { ...options, all: true }, (error, addresses) => {
      if (error) return answer(error, []);
      const allowed = addresses.filter(({ address }) => mayReach(hostname, address, isPrivate));
      const [first] = allowed;
      if (!first) return answer(refused(host), []);
      if (options.all) answer(null, allowed);
      else answer(null, first.address, first.family);
    });
  };
}

/** The error of a failed connection or an interrupted response. */
export function upstreamFailure(error: unknown, name: string, signal: AbortSignal | undefined): TroupeError {
  if (signal?.aborted)
    return new TroupeError('interrupted', 'The client disconnected before the end of the response.', { cause: error });
  if (error instanceof TroupeError) return error;
  const code = String((error as NodeJS.ErrnoException).code ?? 'no answer');
  return new TroupeError(
    'upstream_failed',
    `The model server ${name} could not be reached, or the connection broke (${code}).`,
    {
      got: code,
      cause: error,
    },
  );
}

const notAllowed = (name: string, host: string): TroupeError =>
  new TroupeError(
    'upstream_failed',
    `The model server ${name} is at ${host}, which leads to an address of a private network; nothing was sent to it.`,
    { hint: `If that is intended, allow it in the setting: upstreams: { ${name}: { private: true } }.` },
  );

const tooLate = (name: string, ms: number): TroupeError =>
  new TroupeError('upstream_timeout', `The model server ${name} sent nothing for ${ms / 1000} s.`);
