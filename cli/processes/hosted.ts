/** The models of configured servers that stand for policies before their first release. */
import { fallbacksOf, readRoutes } from '../../api/gateway/model-routes.ts';
import { readUpstreams } from '../../api/gateway/upstream/settings.ts';
import type { Config } from '../../config.ts';

export const hostedBy = ({ routes, upstreams }: Config): Readonly<Record<string, string>> =>
  fallbacksOf(readRoutes(routes, readUpstreams(upstreams, process.env)));
