/** The models of configured servers that stand for policies before their first release. */
import { fallbacksOf, readRoutes } from './model-routes.ts';
import { readUpstreams } from './upstream/settings.ts';

export const hostedBy = (
  { routes, upstreams }: { readonly routes?: unknown; readonly upstreams?: unknown },
  env: Parameters<typeof readUpstreams>[1] = process.env,
): Readonly<Record<string, string>> => fallbacksOf(readRoutes(routes, readUpstreams(upstreams, env)));
