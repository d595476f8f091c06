/** Trees of steps or of episodes, from the parent that each names. Nothing that is recorded can make this run for ever. */
import { groupBy } from '../../../ingest/events/group-by.ts';

export type Tree<T> = {
  /** All nodes that hang from a root, in their order. */
  readonly nodes: readonly T[];
  readonly roots: readonly T[];
  readonly parentOf: (node: T) => T | null;
  readonly childrenOf: (node: T) => readonly T[];
  /** From the root to the node. */
  readonly pathTo: (node: T) => T[];
  /** Why a node hangs from no root: it, or what it hangs from, is its own ancestor, or names a parent that is not there. */
  readonly apart: ReadonlyMap<T, 'cycle' | 'unknown_parent'>;
  /** False where no node has a parent. */
  readonly grown: boolean;
};

export function treeOf<T>(
  all: readonly T[],
  idOf: (node: T) => string,
  parentIdOf: (node: T) => string | null,
): Tree<T> {
  const byId = new Map(all.map((node) => [idOf(node), node]));
  const apart = new Map<T, 'cycle' | 'unknown_parent'>();
  const settled = new Set<T>();
  for (const start of all) {
    const walked = new Set<T>();
    let node: T | undefined = start;
    let reason: 'cycle' | 'unknown_parent' | undefined;
    while (!settled.has(node)) {
      if (walked.has(node)) reason = 'cycle';
      walked.add(node);
      if (reason) break;
      const parentId = parentIdOf(node);
      if (parentId === null) break;
      const parent = byId.get(parentId);
      if (parent === undefined) {
        reason = 'unknown_parent';
        break;
      }
      node = parent;
    }
    reason ??= apart.get(node);
    for (const one of walked) {
      settled.add(one);
      if (reason) apart.set(one, reason);
    }
  }
  const nodes = all.filter((node) => !apart.has(node));
  const parentOf = (node: T): T | null => {
    const parentId = parentIdOf(node);
    return parentId === null ? null : (byId.get(parentId) ?? null);
  };
  const children = groupBy(nodes, parentOf);
  return {
    nodes,
    roots: children.get(null) ?? [],
    parentOf,
    childrenOf: (node) => children.get(node) ?? [],
    pathTo: (node) => {
      const path: T[] = [];
      for (let at: T | null = node; at !== null; at = parentOf(at)) path.push(at);
      return path.reverse();
    },
    apart,
    grown: all.some((node) => parentIdOf(node) !== null),
  };
}
