/**
 * The setting `routes`: calls for another model that a policy of this project serves instead, so that clients need no change. A route
 * matches calls by model, agent and role.
 */
import { Type } from 'typebox';
import { wrongSetting } from '../../errors.ts';
import { isIdentifier } from '../../ingest/events/text.ts';
import { readSetting } from '../../setting.ts';
import type { CallContext } from './request.ts';
import { findUpstream, type Upstream } from './upstream/settings.ts';

export type Route = {
  readonly name: string;
  /** The model that the call names; a prefix if it ends with `*`. */
  readonly model: string;
  /** Only calls of this agent; null: all calls. */
  readonly agent: string | null;
  readonly role: string | null;
  readonly policy: string;
  /** The model of a configured server to use while no process serves the policy; null: the call then fails. */
  readonly fallback: string | null;
};

const name = (expects: string, isOther: (name: string) => boolean = () => false) =>
  Type.String({ fits: (value: string) => isIdentifier(value) && !isOther(value), expects });
const Setting = Type.Object(
  {
    model: name('a model that clients ask for', (value) => /^(?:policy|checkpoint):/.test(value)),
    policy: name('the name of a policy, such as team', (value) => value.startsWith('policy:')),
    agent: Type.Optional(name('a name')),
    role: Type.Optional(name('a name')),
    fallback: Type.Optional(name('a model of a configured server')),
  },
  { additionalProperties: false },
);

/** Routes in the order they are written. @throws TroupeError `config_invalid` naming the field. */
export const readRoutes = (setting: unknown, upstreams: readonly Upstream[]): readonly Route[] =>
  readSetting('routes', Setting, setting).map(
    ([name, { model, policy, agent = null, role = null, fallback = null }]) => {
      if (fallback !== null && findUpstream(upstreams, fallback) === null)
        throw wrongSetting(`routes.${name}.fallback`, 'a model of a configured server', fallback);
      return { name, model, agent, role, policy, fallback };
    },
  );

/** The model that the calls of each policy fall back to: what answers them before the first release. Of several routes the first counts. */
export function fallbacksOf(routes: readonly Route[]): Readonly<Record<string, string>> {
  const found: Record<string, string> = {};
  for (const { policy, fallback } of routes) if (fallback !== null) found[policy] ??= fallback;
  return found;
}

/** The first route that matches a call; null if none does. */
export const routeOf = (
  routes: readonly Route[],
  model: string,
  { agent, role }: Pick<CallContext, 'agent' | 'role'>,
): Route | null =>
  routes.find(
    (route) =>
      (route.model.endsWith('*') ? model.startsWith(route.model.slice(0, -1)) : model === route.model) &&
      (route.agent === null || route.agent === agent) &&
      (route.role === null || route.role === role),
  ) ?? null;
