/**
 * The small numeric pieces that methods share. Everything is IEEE double precision; every ordering is stable; a standard deviation
 * always states its divisor. A null is omitted from the statistics and is never counted as 0.
 */

/** What rows are grouped by. A number and the same digits as text are two groups. */
export type GroupKey = string | number;

/** `numbers[row]` is the group of the row, counted from 0 in order of first appearance; `count` is how many groups there are. */
export type Groups = { readonly numbers: Int32Array; readonly count: number };

export function sum(values: readonly number[]): number {
  let total = 0;
  for (const value of values) total += value;
  return total;
}

/** Arithmetic mean; of equal values exactly that value, which dividing a rounded sum does not give. NaN for no values. */
export function mean(values: readonly number[]): number {
  const first = values[0];
  if (first === undefined) return Number.NaN;
  if (values.every((value) => value === first)) return first;
  const total = sum(values);
  return Number.isFinite(total) ? total / values.length : sum(values.map((value) => value / values.length));
}

/** Standard deviation with divisor n − ddof; 0 for equal values and for n ≤ ddof. Of values whose squares are no doubles too; NaN where it is none. */
export function standardDeviation(values: readonly number[], ddof: 0 | 1): number {
  if (values.length <= ddof) return 0;
  const centre = mean(values);
  let squares = 0;
  for (const value of values) squares += (value - centre) ** 2;
  if (squares !== Number.POSITIVE_INFINITY) return Math.sqrt(squares / (values.length - ddof));
  // An infinite deviation would make advantages 0 without a word.
  const most = largest(values.map((value) => Math.abs(value - centre)));
  const found =
    most *
    standardDeviation(
      values.map((value) => (value - centre) / most),
      ddof,
    );
  return Number.isFinite(found) ? found : Number.NaN;
}

/** The largest of the values, however many there are (a call with as many arguments would not be possible). −∞ for no values. */
export function largest(values: Iterable<number>): number {
  let most = Number.NEGATIVE_INFINITY;
  for (const value of values) if (value > most) most = value;
  return most;
}

/** Middle value; the mean of the two middle ones for an even count. NaN for no values. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const half = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[half]! : (sorted[half - 1]! + sorted[half]!) / 2;
}

/** Nearest integer, an exact half to the even one, as Python and numpy round and `Math.round` does not. */
export function roundHalfEven(x: number): number {
  const floor = Math.floor(x);
  const rest = x - floor;
  if (rest !== 0.5) return Math.round(x);
  return floor % 2 === 0 ? floor : floor + 1;
}

/** The positions 0..n−1 ordered by `key` of each, ascending or descending; equal keys stay in their original order. */
export function stableOrder<T>(rows: readonly T[], key: (row: T) => number, direction: 'ascending' | 'descending') {
  const keys = rows.map(key);
  const sign = direction === 'ascending' ? 1 : -1;
  return rows.map((_, i) => i).sort((a, b) => sign * (keys[a]! - keys[b]!));
}

/** Numbers the groups that rows form when they must agree in every column. Columns have one entry a row. */
export function groupRows(first: readonly GroupKey[], ...others: readonly (readonly GroupKey[])[]): Groups {
  let groups = numberKeys(first);
  for (const column of others) groups = cross(groups, numberKeys(column));
  return groups;
}

function numberKeys(keys: readonly GroupKey[]): Groups {
  const seen = new Map<GroupKey, number>();
  const numbers = new Int32Array(keys.length);
  let number = 0;
  for (let row = 0; row < keys.length; row++) {
    const key = keys[row]!;
    // Rows of a group mostly stand together, and comparing is cheaper than looking up.
    if (row === 0 || key !== keys[row - 1]) {
      const known = seen.get(key);
      number = known ?? seen.size;
      if (known === undefined) seen.set(key, number);
    }
    numbers[row] = number;
  }
  return { numbers, count: seen.size };
}

// A pair of group numbers is one number below 2^53 (at most 2^31 groups a side would not be, but rows do not reach that).
function cross(left: Groups, right: Groups): Groups {
  const pairs: number[] = new Array(left.numbers.length);
  for (let row = 0; row < pairs.length; row++) pairs[row] = left.numbers[row]! * right.count + right.numbers[row]!;
  return numberKeys(pairs);
}

/** The values as a column of doubles, NaN where there is none. Loops over it cost a third of those over boxed numbers and nulls. */
export function columnOf(values: readonly (number | null)[]): Float64Array {
  const column = new Float64Array(values.length);
  for (let row = 0; row < column.length; row++) {
    const value = values[row];
    column[row] = typeof value === 'number' ? value : Number.NaN;
  }
  return column;
}

/** Size, mean and standard deviation of each group's values, nulls (in a column of doubles NaN) left out; a group of equal values has deviation exactly 0. */
export function groupStatistics(
  { numbers, count }: Groups,
  values: readonly (number | null)[] | Float64Array,
  ddof: 0 | 1,
): {
  /** Rows of the group that have a value. */
  readonly size: Int32Array;
  readonly mean: Float64Array;
  /** 0 for fewer values than the divisor needs. */
  readonly deviation: Float64Array;
} {
  const column = values instanceof Float64Array ? values : columnOf(values);
  const size = new Int32Array(count);
  const means = new Float64Array(count);
  const deviation = new Float64Array(count);
  const first = new Float64Array(count);
  const differs = new Uint8Array(count);
  for (let row = 0; row < numbers.length; row++) {
    const value = column[row]!;
    if (Number.isNaN(value)) continue;
    const group = numbers[row]!;
    if (size[group] === 0) first[group] = value;
    else if (value !== first[group]) differs[group] = 1;
    size[group]! += 1;
    means[group]! += value;
  }
  // A rounded sum over its size is not the value that all have.
  for (let group = 0; group < count; group++) {
    means[group] = differs[group] === 0 && size[group]! > 0 ? first[group]! : means[group]! / size[group]!;
  }
  for (let row = 0; row < numbers.length; row++) {
    const value = column[row]!;
    if (Number.isNaN(value)) continue;
    const group = numbers[row]!;
    deviation[group]! += (value - means[group]!) ** 2;
  }
  for (let group = 0; group < count; group++) {
    const divisor = size[group]! - ddof;
    deviation[group] = divisor > 0 ? Math.sqrt(deviation[group]! / divisor) : 0;
    if (size[group] === 0 || Number.isFinite(means[group]! + deviation[group]!)) continue;
    const own = [...column].filter((value, row) => numbers[row] === group && !Number.isNaN(value));
    means[group] = mean(own);
    deviation[group] = standardDeviation(own, ddof);
  }
  return { size, mean: means, deviation };
}
