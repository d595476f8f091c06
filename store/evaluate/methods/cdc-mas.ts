/** CDC-MAS (arXiv 2509.08682): blame from the dependencies between agents. */

import { type Static, Type } from 'typebox';
import { groupBy } from '../../../ingest/events/group-by.ts';
import { blame, nobody } from '../judging/blame-rows.ts';
import type { Judgement } from '../judging/judgement.ts';
import type { MethodFacts } from '../judging/method-facts.ts';
import { bit, ofKind, runsOf, succeeded } from '../judging/replays.ts';
import { method } from './method.ts';
import { refuseInput } from './refuse.ts';
import { Key } from './shapes.ts';
import { mean, sum } from './statistics.ts';

const Input = Type.Object({ edges: Type.Array(Type.Tuple([Key, Key])) });
type Edge = Static<typeof Input>['edges'][number];

/**
 * Turns the flow of data around, so that blame runs from who used something to who made it.
 *
 * Source: CDC-MAS, arXiv 2509.08682. Secondary. Edges are (producer, consumer) and come out as (consumer, producer), in order.
 * Kept: every edge turned, none added or joined. Dropped: the search for causes step by step, which is not published in
 * a form that could be checked. Open: whether repeats of an edge count.
 */
export const invertDependencies = method({
  name: 'invert_dependencies',
  kind: 'blame',
  source: 'CDC-MAS: arXiv 2509.08682; secondary',
  version: 1,
  summary: 'Reverses each edge from producer to consumer.',
  teams: 'several agents',
  input: Input,
  run: ({ edges }): Edge[] => edges.map(([producer, consumer]): Edge => [consumer, producer]),
  judged: {
    reads: ['feedback'],
    /**
     * Pairs of producer and consumer: feedback `data_deps` on the episode, whose value is a list of pairs of step ids or agents; else each
     * step with the step that it was expanded from. A row for each edge, in order: the blame goes to the producer.
     */
    rows: (facts, ask) => {
      const own = groupBy(facts.steps, (step) => step.episode_id);
      return facts.episodes.flatMap((episode): Judgement[] => {
        const steps = own.get(episode.episode_id) ?? [];
        const edges =
          edgesIn(facts, episode.episode_id) ??
          steps.flatMap(({ parent_step_id, step_id }) =>
            parent_step_id === null ? [] : [[parent_step_id, step_id] as const],
          );
        if (edges.length === 0) return [nobody(episode, 'no_dependencies')];
        const inverted = ask.run({ edges });
        const known = new Map(steps.map((step) => [step.step_id, step]));
        return inverted.map((edge, rank) => {
          const [consumer, producer] = edge.map(String) as [string, string];
          const step = known.get(producer);
          const who = step ? { agent_id: step.agent, step_id: producer } : { agent_id: producer, step_id: null };
          return blame(episode, who, { from: consumer, to: producer }, { rank });
        });
      });
    },
  },
});

/** The last recorded list of pairs. */
function edgesIn({ feedback }: MethodFacts, episode: string): readonly (readonly [string, string])[] | null {
  const recorded = (feedback.get(episode) ?? []).filter(
    ({ name, target_kind }) => name === 'data_deps' && target_kind === 'episode',
  );
  const isEdge = (one: unknown): one is [string, string] =>
    Array.isArray(one) && one.length === 2 && one.every((end) => typeof end === 'string');
  const lists = recorded.flatMap(({ value_json }) =>
    Array.isArray(value_json) && value_json.every(isEdge) ? [value_json] : [],
  );
  return lists.at(-1) ?? null;
}

/**
 * How much of a failure each agent answers for: its average effect on success when it joins those already repaired.
 *
 * Source: CDC-MAS, arXiv 2509.08682. Secondary; the coalition values are the success rates when only these agents are repaired, which
 * needs replays or a value model. `values` has a key for every coalition: names sorted by code unit and joined by +, nobody is "".
 * Blame is the positive part, normalised, or uniform if there is none. Exact, hence at most 16 agents; sampling is not done here.
 * Kept: efficiency, symmetry, dummy. Dropped: sampled permutations for larger teams. Open: the value of a coalition in
 * the paper.
 */
export const shapley = method({
  name: 'shapley',
  kind: 'blame',
  source: 'CDC-MAS: arXiv 2509.08682; secondary',
  version: 1,
  summary: 'Shapley value of repairing each agent, and its share of the blame.',
  teams: 'several agents',
  input: Type.Object({
    agents: Type.Array(Type.String(), { minItems: 1, maxItems: 16 }),
    values: Type.Record(Type.String(), Type.Number()),
  }),
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
  judged: {
    scope: () => 'set',
    /**
     * The value of a coalition is the share of successes among the replays of kind repair whose `repaired` names exactly its agents; that of
     * nobody is the run's own outcome beside those that repaired nobody. Agents are those that took a step.
     */
    rows: (facts, ask) =>
      runsOf(facts).flatMap((run): Judgement[] => {
        const { episode } = run;
        if (run.of !== null) return [nobody(episode, 'is_a_replay')];
        const agents = [...new Set(run.steps.flatMap(({ agent }) => agent ?? []))].sort();
        if (agents.length === 0) return [nobody(episode, 'no_agents')];
        if (agents.length > MOST_AGENTS) return [nobody(episode, 'too_many_agents', { agents: agents.length })];
        const tried = ofKind(run, 'repair').flatMap(({ episode: replay, intervention }) => {
          const success = succeeded(replay);
          const repaired = intervention.repaired;
          return success === null || !Array.isArray(repaired)
            ? []
            : [{ key: [...new Set(repaired.map(String))].sort().join('+'), success }];
        });
        const own = succeeded(episode);
        const all = own === null ? tried : [{ key: '', success: own }, ...tried];
        const values = Object.fromEntries(
          [...groupBy(all, ({ key }) => key)].map(([key, same]) => [
            key,
            mean(same.map(({ success }) => bit(success))),
          ]),
        );
        const lacking = 2 ** agents.length - coalitionsOf(agents).filter((key) => Object.hasOwn(values, key)).length;
        if (lacking > 0)
          return [nobody(episode, tried.length === 0 ? 'no_replays' : 'missing_coalitions', { lacking })];
        const output = ask.answer({ agents, values });
        if (typeof output === 'string') return [nobody(episode, output)];
        const { phi, blame: shares } = output;
        return agents
          .toSorted((a, b) => shares[b]! - shares[a]!)
          .map((agent_id, rank) =>
            blame(episode, { agent_id, step_id: null }, { phi: phi[agent_id] }, { rank, value: shares[agent_id]! }),
          );
      }),
  },
});

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

/** Coalitions of more agents than these are not looked through before the method refuses them. */
const MOST_AGENTS = 16;

const coalitionsOf = (agents: readonly string[]): string[] =>
  Array.from({ length: 2 ** agents.length }, (_, members) => agents.filter((_, i) => (members >> i) & 1).join('+'));
