/** Which share of the groups that were played carried a signal, where the recipe of the dataset left out those without. */
import type { Manifest } from '../../store/datasets/manifest.ts';
import { comparisonsOf } from '../../store/select.ts';
import type { RlOutcome } from './rl.ts';

/** The stage of a funnel that leaves out groups without a signal. */
const STAGE = 'where group.signal';

/** The metrics of each role with its share of all groups that were played; without it where the funnel does not tell how many there were. */
export function withSignal(
  roles: RlOutcome['roles'],
  { recipe, funnel }: Pick<Manifest, 'recipe' | 'funnel'>,
): Record<string, Record<string, number>> {
  const filtered = comparisonsOf(recipe.where).some(({ field }) => field === 'group.signal');
  const stage = funnel.find(({ name }) => name === STAGE);
  const left = !filtered ? 1 : stage?.before ? stage.after / stage.before : null;
  return Object.fromEntries(
    Object.entries(roles).map(([role, { signal, ...metrics }]) => [
      role,
      left === null ? metrics : { ...metrics, signal: signal * left },
    ]),
  );
}
