/**
 * Why a row's advantage must be read with care. Credit methods answer with numbers only, as their sources do; the judge stores
 * these words beside the numbers, so that a group without a signal is never taken for a group of average rows.
 */

import { type GroupKey, groupRows } from './statistics.ts';

export type GroupFlag = 'group_of_one' | 'zero_variance' | 'missing_reward';

/**
 * One flag a row, null where nothing is wrong. A null reward is `missing_reward` and does not count towards its group's size;
 * a row alone in its group with a reward is `group_of_one`; rows whose group has equal rewards are `zero_variance`.
 * `groups` is the key of each row, one column or several that must agree together.
 */
export function groupFlags(
  groups: readonly GroupKey[] | readonly [readonly GroupKey[], ...(readonly GroupKey[])[]],
  rewards: readonly (number | null)[],
): (GroupFlag | null)[] {
  const columns = isColumns(groups) ? groups : ([groups] as const);
  const { numbers, count } = groupRows(columns[0], ...columns.slice(1));
  const size = new Int32Array(count);
  const first = new Float64Array(count);
  const differs = new Uint8Array(count);
  rewards.forEach((reward, row) => {
    if (reward === null) return;
    const group = numbers[row]!;
    if (size[group] === 0) first[group] = reward;
    else if (first[group] !== reward) differs[group] = 1;
    size[group]! += 1;
  });
  return rewards.map((reward, row) => {
    const group = numbers[row]!;
    if (reward === null) return 'missing_reward';
    if (size[group] === 1) return 'group_of_one';
    return differs[group] === 1 ? null : 'zero_variance';
  });
}

function isColumns(
  groups: readonly GroupKey[] | readonly [readonly GroupKey[], ...(readonly GroupKey[])[]],
): groups is readonly [readonly GroupKey[], ...(readonly GroupKey[])[]] {
  return Array.isArray(groups[0]);
}
