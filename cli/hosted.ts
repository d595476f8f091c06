/** What configured servers do for policies: models that stand for them before their first release, and weights that are theirs. */
import { fallbacksOf, readRoutes } from '../api/model-routes.ts';
import { readUpstreams } from '../api/upstream/settings.ts';
import type { Config } from '../config.ts';

/** `hosted`: by policy the model that a route falls back to; `outside`: the policies whose weights a server has. */
export function hostedBy({ routes, upstreams }: Config): {
  readonly hosted: Readonly<Record<string, string>>;
  readonly outside: readonly string[];
} {
  const servers = readUpstreams(upstreams, process.env);
  return {
    hosted: fallbacksOf(readRoutes(routes, servers)),
    outside: servers.flatMap(({ policies }) => policies),
  };
}
