/** Sets that are joined pair by pair (union-find), and how a cluster is named. */

/** Where a task stands: in a cluster named after the smallest id in it; alone, with the reason, where nothing is known of it. */
export type Placement = { readonly cluster: string; readonly reason: string | null };

/** A number for the root of each set; the root is the set's smallest member, whatever the order of joining. */
export type Unions = { readonly root: (member: number) => number; readonly join: (a: number, b: number) => void };

/** `size` sets of one member each. */
export function disjointSets(size: number): Unions {
  const parent = Int32Array.from({ length: size }, (_, i) => i);
  const root = (member: number): number => {
    let at = member;
    while (parent[at] !== at) {
      // Each step halves the path, which keeps the paths short whatever is joined.
      parent[at] = parent[parent[at]!]!;
      at = parent[at]!;
    }
    return at;
  };
  const join = (a: number, b: number): void => {
    const [x, y] = [root(a), root(b)];
    parent[Math.max(x, y)] = Math.min(x, y);
  };
  return { root, join };
}

/** Rows in ascending order of their ids by UTF-16 code units, which no locale changes; the first of two rows of one id is named, if any. */
export function inOrderOfIds<Row extends { readonly id: string }>(
  rows: readonly Row[],
): { readonly sorted: readonly Row[]; readonly repeated: string | null } {
  const sorted = rows.toSorted((a, b) => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0));
  const repeated = sorted.find((row, i) => row.id === sorted[i - 1]?.id)?.id ?? null;
  return { sorted, repeated };
}
