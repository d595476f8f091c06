/**
 * Authorisation. It runs after routing, so that no spelling of a path gets around it: each route declares the scope it needs,
 * beside its other documentation, and one without a scope needs `admin`.
 */
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { TroupeError } from '../../errors.ts';
import type { Scope } from '../../store/keys/api-key.ts';
import type { Identity, KeyRing } from './key-ring.ts';
import { isLoopback } from './origin.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Whose key came with the request; null where none was needed. */
    identity: Identity | null;
  }
}

export type AuthOptions = {
  readonly keys: KeyRing;
  /** True: programs on this machine need no key, even where there are keys. */
  readonly openLoopback?: boolean;
};

/** Longest text that is checked as a key. */
const LONGEST = 512;

/** Responds 401 and 403 before a body is read. */
export function authorise(app: FastifyInstance, { keys, openLoopback = false }: AuthOptions): void {
  app.decorateRequest('identity', null);
  app.addHook('onRequest', async (request, reply) => {
    const scope = scopeOf(request);
    if (scope === null) return;
    if (!(await keys.required())) return;
    const texts = keysIn(request);
    if (openLoopback && texts.length === 0 && isLocal(request)) return;
    let identity: Identity | null = null;
    for (const text of texts) identity ??= await keys.identify(text);
    if (identity === null) {
      // A browser asks its user for a name and a password; the key is the password.
      const browser = request.headers.accept?.includes('text/html') ?? false;
      reply.header('www-authenticate', browser ? 'Basic realm="Troupe", charset="UTF-8"' : 'Bearer realm="Troupe"');
      throw new TroupeError('unauthorized', 'A valid API key is needed here.', {
        expected: 'Authorization: Bearer KEY, or Troupe-Key: KEY',
        hint: 'Make one with: troupe key create --scopes ingest,read --name NAME',
      });
    }
    request.identity = identity;
    // A path without a route gives 404 to every valid key.
    if (request.is404 || identity.scopes.includes('admin') || identity.scopes.includes(scope)) return;
    throw new TroupeError('scope_missing', `This needs a key with the scope ${scope}.`, {
      expected: scope,
      got: identity.scopes.join(', '),
    });
  });
}

const scopeOf = ({ routeOptions }: FastifyRequest): Scope | null => {
  const { doc } = routeOptions.config;
  return doc === undefined ? 'admin' : doc.scope;
};

/**
 * The texts that may be a key of ours, in the order they are tried: a model server's own key may stand in Authorization, and tracing
 * clients of LangSmith send x-api-key.
 */
function keysIn({ headers }: FastifyRequest): readonly string[] {
  return [headers['troupe-key'], headers['x-api-key'], secretOf(headers.authorization)].filter(
    (text): text is string => typeof text === 'string' && text !== '' && text.length <= LONGEST,
  );
}

/** The secret of an Authorization header: a bearer, or the password of a browser. Null where it is neither. */
export function secretOf(authorization: string | undefined): string | null {
  const [, scheme, value] = /^(bearer|basic) +(\S+) *$/i.exec(authorization ?? '') ?? [];
  if (scheme === undefined || value === undefined) return null;
  if (scheme.toLowerCase() === 'bearer') return value;
  const pair = Buffer.from(value, 'base64').toString('utf8');
  return pair.slice(pair.indexOf(':') + 1);
}

/** A connection from this machine that nobody passed on. */
const isLocal = ({ socket, headers }: FastifyRequest): boolean =>
  isLoopback((socket.remoteAddress ?? '').replace(/^::ffff:/, '')) &&
  headers['x-forwarded-for'] === undefined &&
  headers.forwarded === undefined;
