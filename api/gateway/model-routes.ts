/**
 * The setting `routes`: calls for another model that a policy of this project serves instead, so that clients need no change. A route
 * matches calls by model, agent and role.
 */
import { wrongSetting } from '../../errors.ts';
import { isRecord } from '../../ingest/events/json.ts';
import { isIdentifier } from '../../ingest/events/text.ts';
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

const FIELDS = ['model', 'agent', 'role', 'policy', 'fallback'] as const;

/** Routes in the order they are written. Throws `config_invalid` naming the field. */
export function readRoutes(setting: unknown, upstreams: readonly Upstream[]): readonly Route[] {
  if (setting == null) return [];
  if (!isRecord(setting)) throw wrongSetting('routes', 'a map of name to route', setting);
  return Object.entries(setting).map(([name, fields]) => {
    const at = `routes.${name}`;
    if (!/^[a-z0-9][a-z0-9._-]{0,63}$/i.test(name))
      throw wrongSetting('routes', 'names of letters, digits, ".", "_", "-"', name);
    if (!isRecord(fields)) throw wrongSetting(at, 'a map with model and policy', fields);
    const strange = Object.keys(fields).find((field) => !(FIELDS as readonly string[]).includes(field));
    if (strange !== undefined) throw wrongSetting(at, `only ${FIELDS.join(', ')}`, strange);
    const text = (field: (typeof FIELDS)[number]): string | null => {
      const value = fields[field];
      if (value == null) return null;
      if (isIdentifier(value)) return value;
      throw wrongSetting(`${at}.${field}`, 'a name', value);
    };
    const [model, policy, fallback] = [text('model'), text('policy'), text('fallback')];
    if (model === null || /^(?:policy|checkpoint):/.test(model))
      throw wrongSetting(`${at}.model`, 'a model that clients ask for', model);
    if (policy === null || policy.startsWith('policy:'))
      throw wrongSetting(`${at}.policy`, 'the name of a policy, such as team', policy);
    if (fallback !== null && findUpstream(upstreams, fallback) === null)
      throw wrongSetting(`${at}.fallback`, 'a model of a configured server', fallback);
    return { name, model, agent: text('agent'), role: text('role'), policy, fallback };
  });
}

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
