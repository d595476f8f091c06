/**
 * How far the shares of classes moved: the population stability index, Σ (q − p) ln(q / p), as credit scoring uses it. Each class has half a
 * unit more than was counted, so that one that is new or gone counts and is not infinite.
 *
 * Source: Yurdakul 2018, "Statistical Properties of Population Stability Index", which also gives its mean where nothing moved: with `n`
 * and `m` units in `k` classes about (k − 1)(1/n + 1/m). That is taken off, so that few units do not look like a shift.
 */

/** Classes beyond the most frequent ones of the reference are one. */
const MOST_CLASSES = 9;
const OTHER = 'other';

export type Stability = {
  /** The index less what chance alone gives; 0 where it is less. */
  readonly index: number;
  /** The class whose share moved most, with its shares. */
  readonly most: { readonly name: string; readonly before: number; readonly after: number };
};

/** @param before class of each unit of the reference @param after class of each unit now; neither is empty */
export function stabilityIndex(before: readonly string[], after: readonly string[]): Stability {
  const frequent = [...counted(before)].sort(([a, n], [b, m]) => m - n || (a < b ? -1 : 1)).slice(0, MOST_CLASSES);
  const named = new Set(frequent.map(([name]) => name));
  const classOf = (name: string) => (named.has(name) ? name : OTHER);
  const [p, q] = [counted(before.map(classOf)), counted(after.map(classOf))];
  const classes = [...new Set([...p.keys(), ...q.keys()])];
  const share = (of: ReadonlyMap<string, number>, total: number, name: string) =>
    ((of.get(name) ?? 0) + 0.5) / (total + 0.5 * classes.length);
  const parts = classes.map((name) => {
    const [from, to] = [share(p, before.length, name), share(q, after.length, name)];
    return { name, before: from, after: to, part: (to - from) * Math.log(to / from) };
  });
  const chance = (classes.length - 1) * (1 / before.length + 1 / after.length);
  const sum = parts.reduce((total, { part }) => total + part, 0);
  const { part: _, ...most } = parts.reduce((a, b) => (b.part > a.part ? b : a));
  return { index: Math.max(0, sum - chance), most };
}

function counted(names: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return counts;
}

/** The tenth of the reference that each number falls into, as a class. Equal limits are one. @param reference not empty */
export function tenths(reference: readonly number[]): (value: number) => string {
  const sorted = [...reference].sort((a, b) => a - b);
  const limits = [...new Set(Array.from({ length: 9 }, (_, i) => sorted[Math.floor(((i + 1) * sorted.length) / 10)]!))];
  return (value) => {
    const at = limits.findIndex((limit) => value < limit);
    return at < 0 ? `from ${limits.at(-1)}` : at === 0 ? `below ${limits[0]}` : `${limits[at - 1]} to ${limits[at]}`;
  };
}
