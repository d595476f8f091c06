/** Values of a plan that are set beside its file, by their paths: `{"policies.team.train.steps": 60}`. */
import { got } from '../../../errors.ts';
import { isRecord } from '../../../ingest/events/json.ts';
import { invalid } from './plan-parts.ts';

export type PlanValues = Readonly<Record<string, unknown>>;

/**
 * The plan as written, with these values at their paths. Maps that are missing on the way are made; whether the result is a plan is
 * checked afterwards. Pure.
 * @throws TroupeError `plan_invalid` naming the part of a path that is no map and no element of a list
 */
export const withValues = (plan: unknown, values: PlanValues): unknown =>
  Object.entries(values).reduce((so_far, [path, value]) => put(so_far, path, value, path), plan);

function put(into: unknown, path: string, value: unknown, whole: string): unknown {
  if (path === '') return value;
  const done = whole.slice(0, whole.length - path.length).replace(/\.$/, '');
  if (Array.isArray(into)) {
    const [name = '', ...rest] = path.split('.');
    if (!/^\d+$/.test(name) || Number(name) >= into.length)
      throw invalid(whole, `${whole} cannot be set: ${done} has ${into.length} elements, from 0, and no ${got(name)}.`);
    return into.with(Number(name), put(into[Number(name)], rest.join('.'), value, whole));
  }
  if (into !== undefined && !isRecord(into))
    throw invalid(
      whole,
      `${whole} cannot be set: ${done === '' ? 'the plan' : done} is ${got(into)}, which has no parts.`,
    );
  // A name may have dots in it.
  const name = Object.keys(into ?? {}).find((key) => `${path}.`.startsWith(`${key}.`)) ?? path.split('.', 1)[0]!;
  return { ...into, [name]: put(into?.[name], path.slice(name.length + 1), value, whole) };
}
