/** From a score for each candidate to a ranked diagnosis: one line an agent, with its most suspicious entry. */

export type Blamed = {
  readonly agent: string;
  /** Its place among the entries, from 0. */
  readonly entry: number;
  /** The agent's share of the probability; all shares sum to 1. */
  readonly value: number;
  /** The entry's own. */
  readonly entry_value: number;
};

/**
 * Softmax over entries; an agent has the sum of its entries. The surest agent comes first, then the one with the earliest entry.
 * NaN where a score is not finite, which whoever runs a method refuses.
 */
export function rankBlame(
  candidates: readonly { readonly agent: string; readonly entry: number }[],
  scores: readonly number[],
): Blamed[] {
  const shares = softmax(scores);
  const agents = new Map<string, { value: number; entry: number; entry_value: number }>();
  for (const [k, { agent, entry }] of candidates.entries()) {
    const share = shares[k]!;
    const known = agents.get(agent);
    if (known === undefined) agents.set(agent, { value: share, entry, entry_value: share });
    else {
      known.value += share;
      if (share > known.entry_value) Object.assign(known, { entry, entry_value: share });
    }
  }
  return [...agents].map(([agent, found]) => ({ agent, ...found })).sort((a, b) => b.value - a.value);
}

export function softmax(scores: readonly number[]): number[] {
  const top = Math.max(...scores);
  const weights = scores.map((score) => Math.exp(score - top));
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  return weights.map((weight) => weight / total);
}
