/** The configured model servers, with their connections and the names of their models. */
import type { lookup as systemLookup } from 'node:dns';
import { json } from 'node:stream/consumers';
import { isRecord } from '../../../ingest/events/json.ts';
import { type Connection, connectUpstream } from './connection.ts';
import { ANTHROPIC_VERSION, findUpstream, keyHeaders, type Upstream } from './settings.ts';

export type UpstreamMatch = { readonly upstream: Upstream; readonly connection: Connection; readonly model: string };

export type Upstreams = {
  /** The server of a model name; null if there is none. */
  readonly find: (name: string) => UpstreamMatch | null;
  /** Model names that are served, sorted: those of the setting, and those that servers for other names list. */
  readonly models: () => Promise<readonly string[]>;
  readonly close: () => void;
};

/** How long a server has to list its models, and how long that list is cached. */
const PATIENCE_MS = 2_000;
const CACHED_MS = 60_000;

export function openUpstreams(list: readonly Upstream[], lookup?: typeof systemLookup): Upstreams {
  const connections = new Map(list.map((upstream) => [upstream.name, connectUpstream(upstream, lookup)]));
  const known = new Map<string, { readonly at: number; readonly names: Promise<readonly string[]> }>();

  const namesOf = (upstream: Upstream): Promise<readonly string[]> => {
    const before = known.get(upstream.name);
    if (before && performance.now() - before.at < CACHED_MS) return before.names;
    const names = askNames(upstream, connections.get(upstream.name)!).catch(() => {
      known.delete(upstream.name);
      return [];
    });
    known.set(upstream.name, { at: performance.now(), names });
    return names;
  };

  return {
    find: (name) => {
      const found = findUpstream(list, name);
      return found && { ...found, connection: connections.get(found.upstream.name)! };
    },
    models: async () => {
      const named = await Promise.all(
        list.map(async (upstream) => {
          const exact = upstream.models.filter((model) => !model.endsWith('*'));
          if (exact.length > 0 && exact.length === upstream.models.length) return exact;
          return [...exact, ...(await namesOf(upstream)).map((model) => `${upstream.name}/${model}`)];
        }),
      );
      return [...new Set(named.flat())].sort();
    },
    close: () => {
      for (const connection of connections.values()) connection.close();
    },
  };
}

async function askNames(upstream: Upstream, connection: Connection): Promise<readonly string[]> {
  const version = upstream.keyHeader === 'x-api-key' ? { 'anthropic-version': ANTHROPIC_VERSION } : {};
  const headers = { accept: 'application/json', ...version, ...keyHeaders(upstream) };
  const answer = await connection.send({ method: 'GET', path: '/models', headers, timeoutMs: PATIENCE_MS });
  const body = await json(answer);
  const data = isRecord(body) && Array.isArray(body.data) ? body.data.filter(isRecord) : [];
  return data.flatMap(({ id }) => (typeof id === 'string' ? [id] : []));
}
