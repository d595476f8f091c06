/**
 * How much of a failure each agent answers for: its average effect on success when it joins those already repaired.
 *
 * Source: CDC-MAS, arXiv 2509.08682. Secondary; the coalition values are the success rates when only these agents are repaired, which
 * needs replays or a value model. `values` has a key for every coalition: names sorted by code unit and joined by +, nobody is "".
 * Blame is the positive part, normalised, or uniform if there is none. Exact, hence at most 16 agents; sampling is not done here.
 * Kept: efficiency, symmetry, dummy. Dropped: sampled permutations for larger teams. Open: the value of a coalition in
 * the paper.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';
import { refuseInput } from '../refuse.ts';
import { sum } from '../statistics.ts';

const Input = Type.Object({
  agents: Type.Array(Type.String(), { minItems: 1, maxItems: 16 }),
  values: Type.Record(Type.String(), Type.Number()),
});

type Attribution = {
  readonly phi: Readonly<Record<string, number>>;
  readonly blame: Readonly<Record<string, number>>;
};

export const shapley: Method<Static<typeof Input>, Record<never, never>, Attribution> = {
  name: 'shapley',
  kind: 'blame',
  source: 'CDC-MAS: arXiv 2509.08682; secondary',
  version: 1,
  needs: 'repaired coalitions',
  summary: 'Shapley value of repairing each agent, and its share of the blame.',
  params: {},
  input: Input,
  run: ({ agents, values }) => {
    if (new Set(agents).size !== agents.length) refuseInput('agents', 'names that differ', agents);
    const unclear = agents.findIndex((agent) => agent === '' || agent.includes('+'));
    if (unclear >= 0)
      refuseInput(`agents[${unclear}]`, 'a name without +, which joins the names of a coalition', agents[unclear]);
    const phi = shapleyValues(coalitionValues(agents, values), agents.length);
    const positive = phi.map((value) => Math.max(value, 0));
    const total = sum(positive);
    const blame = positive.map((value) => (total === 0 ? 1 / agents.length : value / total));
    const named = (column: readonly number[]) => Object.fromEntries(agents.map((agent, i) => [agent, column[i]!]));
    return { phi: named(phi), blame: named(blame) };
  },
};

/** The value of each coalition, at the index whose bits are its members. */
function coalitionValues(agents: readonly string[], values: Readonly<Record<string, number>>): Float64Array {
  return Float64Array.from({ length: 2 ** agents.length }, (_, coalition) => {
    const members = agents.filter((_, i) => (coalition >> i) & 1).sort();
    const key = members.join('+');
    return Object.hasOwn(values, key)
      ? values[key]!
      : refuseInput(`values[${JSON.stringify(key)}]`, 'the value of this coalition', undefined);
  });
}

/** φ_a = Σ over coalitions without a of |S|!(n−|S|−1)!/n! · (v(S∪a) − v(S)). */
function shapleyValues(values: Float64Array, n: number): number[] {
  const phi: number[] = new Array(n).fill(0);
  const weight = Array.from({ length: n }, (_, size) => 1 / (n * binomial(n - 1, size)));
  values.forEach((value, coalition) => {
    const share = weight[bitsOf(coalition)];
    for (let agent = 0; agent < n; agent++) {
      if (((coalition >> agent) & 1) === 0) phi[agent]! += share! * (values[coalition | (1 << agent)]! - value);
    }
  });
  return phi;
}

function binomial(n: number, k: number): number {
  let product = 1;
  for (let i = 1; i <= k; i++) product = (product * (n - k + i)) / i;
  return product;
}

function bitsOf(coalition: number): number {
  let count = 0;
  for (let rest = coalition; rest > 0; rest &= rest - 1) count += 1;
  return count;
}
