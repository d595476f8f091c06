/** Values of the nodes of a search tree from roll-outs. Source: milad1378yz/MASPRM, src/mcts.py. */

export type NodeValue = { readonly visits: number; readonly q: number };
type Rollout = { readonly path: readonly string[]; readonly correct: boolean };

/** Visits of each node, and the mean of 1 for a right and −1 for a wrong roll-out through it. */
export function backedUp({ rollouts }: { readonly rollouts: readonly Rollout[] }): Record<string, NodeValue> {
  const visits = new Map<string, number>();
  const total = new Map<string, number>();
  for (const { path, correct } of rollouts) {
    for (const node of path) {
      visits.set(node, (visits.get(node) ?? 0) + 1);
      total.set(node, (total.get(node) ?? 0) + (correct ? 1 : -1));
    }
  }
  return Object.fromEntries([...visits].map(([node, n]) => [node, { visits: n, q: total.get(node)! / n }]));
}
