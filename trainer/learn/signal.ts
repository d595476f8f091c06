/** Groups without a signal, all right or all wrong, teach a policy gradient nothing: which share of them a recipe has left out already. */
import type { Manifest } from '../../store/datasets/manifest.ts';
import { comparisonsOf, type Filter, splitFilter } from '../../store/filter/select.ts';
import type { RlOutcome } from './rl.ts';

/** Counts the episodes that meet a filter; null: all. */
export type CountEpisodes = (filter: Filter | null) => Promise<number>;

const FIELD = 'group.signal';

/** The conditions on episodes of a filter without those that look at the signal of their group; undefined where none does. */
export function beforeSignal(where: Filter | null): Filter | null | undefined {
  const parts = splitFilter(where).episode;
  const others = parts.filter((part) => !comparisonsOf(part).some(({ field }) => field === FIELD));
  if (others.length === parts.length) return undefined;
  return others.length === 0 ? null : { and: [...others] };
}

/**
 * The metrics of each role, with its share of the groups that were played, where the recipe left out those without a signal too; without that
 * share where it cannot be counted.
 */
export async function withSignal(
  roles: RlOutcome['roles'],
  { recipe, funnel }: Pick<Manifest, 'recipe' | 'funnel'>,
  count?: CountEpisodes,
): Promise<Record<string, Record<string, number>>> {
  const others = beforeSignal(recipe.where);
  const left = funnel.find(({ of, name }) => of === 'episodes' && name.includes(FIELD));
  const all = others === undefined ? null : others === null ? left?.before : await count?.(others);
  const share = others === undefined ? 1 : all && left ? left.after / all : null;
  return Object.fromEntries(
    Object.entries(roles).map(([role, { signal, ...metrics }]) => [
      role,
      share === null ? metrics : { ...metrics, signal: signal * share },
    ]),
  );
}
