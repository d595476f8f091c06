/**
 * DyLAN (SALT-NLP/DyLAN): peers rate each other, and the ratings say who mattered and when to stop.
 *
 * DyLAN: what agents that answer in rounds think of each other. A round is a turn; an agent is active in it where it has a step in it that
 * the episode went on from. What an agent gets in a round is copied to its steps of that round.
 */

import { type Static, Type } from 'typebox';
import { groupBy } from '../../../ingest/events/group-by.ts';
import type { FeedbackFact } from '../judging/episode-facts.ts';
import { type StepFacts, stepKey } from '../judging/facts.ts';
import { credit, type Judgement, score } from '../judging/judgement.ts';
import type { MethodFacts } from '../judging/method-facts.ts';
import { numberOf, textsOn, truthsOn } from '../judging/named-feedback.ts';
import { onwardOf } from '../judging/over-episodes.ts';
import { method } from './method.ts';
import { requireRows } from './refuse.ts';
import { nullable } from './shapes.ts';
import { sum } from './statistics.ts';

/** Ratings of 1 to 5 as weights that sum to 1; equal ones where not every peer was rated, or all were rated 0. */
function edgeWeights(ratings: readonly number[], peers: number): number[] {
  const rated = ratings.length === peers ? ratings : [];
  const weights = rated.map((rating) => (rating < 1 ? 0 : Math.min(rating / 5, 1)));
  const total = sum(weights);
  return Array.from({ length: peers }, (_, peer) => (total === 0 ? 1 / peers : weights[peer]! / total));
}

/** Of one round the steps of each agent that was active in it, in the order of their output. */
type Round = ReadonlyMap<string, readonly StepFacts[]>;

/** In their order; a text where a step has no turn. */
function roundsOf(steps: readonly StepFacts[]): Round[] | string {
  const onward = onwardOf(steps);
  if (onward.length === 0) return 'not_chosen';
  if (onward.some(({ turn }) => turn === null)) return 'no_turn';
  return [...groupBy(onward, (step) => step.turn!)]
    .sort(([a], [b]) => a - b)
    .map(([, round]) => groupBy(round, (step) => step.agent ?? ''));
}

/** Each step of the episode: what its agent has in its round, or why it has nothing. */
const onRounds = (
  steps: readonly StepFacts[],
  rounds: readonly Round[],
  judge: (agent: string, round: number, step: StepFacts) => Judgement,
): Judgement[] => {
  const judgements = new Map<StepFacts, Judgement>();
  for (const [t, round] of rounds.entries())
    for (const [agent, own] of round) for (const step of own) judgements.set(step, judge(agent, t, step));
  return steps.map((step) => judgements.get(step) ?? credit(step, null, 'not_chosen'));
};

/** The last rating of each rater for each message. */
function ratingsOf(facts: readonly FeedbackFact[]): Map<string, number> {
  const found = new Map<string, number>();
  for (const fact of facts) {
    const value = numberOf(fact);
    if (fact.target_kind === 'step' && fact.name === 'rating' && value !== null && fact.annotator !== null)
      found.set(stepKey(fact.annotator, fact.target_id ?? ''), value);
  }
  return found;
}

type Edges = Record<string, Record<string, number>>;

type Weigh = (input: { readonly ratings: readonly number[]; readonly n_peers: number }) => number[] | string;

/**
 * From each round to the next: the weight of a's message in b. The peers of b are the agents of the round before, in their order; where b
 * did not rate every one of them, the method gets fewer ratings than peers.
 */
function edgesOf(rounds: readonly Round[], ratings: ReadonlyMap<string, number>, weigh: Weigh): Edges[] | string {
  const edges: Edges[] = [];
  for (const [t, next] of rounds.slice(1).entries()) {
    const peers = [...rounds[t]!];
    const given = new Map<string, number[]>();
    for (const rater of next.keys()) {
      const ratingOf = (own: readonly StepFacts[]) =>
        own.map(({ step_id }) => ratings.get(stepKey(rater, step_id))).findLast((one) => one !== undefined);
      const weights = weigh({ ratings: peers.flatMap(([, own]) => ratingOf(own) ?? []), n_peers: peers.length });
      if (typeof weights === 'string') return weights;
      given.set(rater, weights);
    }
    // Made from entries, so that an agent of any name has its own.
    const ratingsAt = (i: number) => Object.fromEntries([...given].map(([rater, weights]) => [rater, weights[i]!]));
    const between: Edges = Object.fromEntries(peers.map(([peer], i) => [peer, ratingsAt(i)]));
    edges.push(between);
  }
  return edges;
}

/** Rounds and edges of an episode, or why there are none. */
function listening(facts: MethodFacts, weigh: Weigh) {
  return (episode: string, steps: readonly StepFacts[]) => {
    const rounds = roundsOf(steps);
    if (typeof rounds === 'string') return rounds;
    const ratings = ratingsOf(facts.feedback.get(episode) ?? []);
    if (ratings.size === 0 && rounds.length > 1) return 'no_ratings';
    const edges = edgesOf(rounds, ratings, weigh);
    return typeof edges === 'string' ? edges : { rounds, edges };
  };
}

/**
 * How much each peer's message counted for an agent, from the ratings it gave them.
 *
 * Source: SALT-NLP/DyLAN, code/demo/LLM_Neuron.py. Verified (code). 1 to 5 becomes rating/5, more becomes 1, anything else 0; a wrong number of
 * ratings makes all of them 0. The weights are divided by their sum; a sum of 0 weighs all peers the same.
 * Kept: the uniform fallback. Dropped: reading ratings out of a message. Open: nothing known.
 */
export const dylanEdgeWeights = method({
  name: 'dylan_edge_weights',
  kind: 'process',
  source: 'DyLAN: SALT-NLP/DyLAN, code/demo/LLM_Neuron.py; verified (code)',
  version: 1,
  summary:
    'Peer ratings as weights that sum to 1; stored on each message as the mean weight it had, with each listener’s beside it.',
  teams: 'agents that answer in rounds and rate each other',
  input: Type.Object({
    ratings: Type.Array(Type.Number()),
    n_peers: Type.Integer({ minimum: 0, maximum: 100_000 }),
  }),
  run: ({ ratings, n_peers }): number[] => edgeWeights(ratings, n_peers),
  judged: {
    over: 'episode',
    reads: ['feedback'],
    writes: ['credits', 'scores'],
    /** The credit of a message is the mean weight that it had in those who listened to it, each of which stands beside it. */
    each: (facts, ask) => {
      const edgesIn = listening(facts, (input) => ask.answer(input));
      return ({ episode: { episode_id }, steps }) => {
        const found = edgesIn(episode_id, steps);
        if (typeof found === 'string') return found;
        return onRounds(steps, found.rounds, (agent, t, step) => {
          const weights = found.edges[t]?.[agent];
          if (weights === undefined) return credit(step, null, 'last_round');
          const all = Object.values(weights);
          return credit(step, all.reduce((sum, one) => sum + one, 0) / all.length, null, { weights });
        });
      };
    },
  },
});

const Input = Type.Object({
  rounds: Type.Array(Type.Record(Type.String(), Type.Object({ active: Type.Boolean(), agrees: Type.Boolean() }))),
  edges: Type.Array(Type.Record(Type.String(), Type.Record(Type.String(), Type.Number({ minimum: 0 })))),
});
type Input = Static<typeof Input>;

/**
 * How much each agent contributed to a team's final answer, round by round, backwards along who listened to whom.
 *
 * Source: SALT-NLP/DyLAN, code/demo/LLMLP.py. Verified (code). In the last round with an active agent, the active agents that agree with the
 * final answer share 1; where nobody agrees all have 0 (the source divides by zero). Before that, an active agent has the importance of
 * its listeners, weighted by how much they listened. `edges[t][a][b]` is the weight of a's message of round t in b at round t + 1;
 * a missing edge weighs 0.
 * Kept: the sum over rounds. Dropped: choosing the team by importance. Open: nothing known.
 */
export const dylanImportance = method({
  name: 'dylan_importance',
  kind: 'process',
  source: 'DyLAN: SALT-NLP/DyLAN, code/demo/LLMLP.py; verified (code)',
  version: 1,
  summary:
    'Importance of each agent in each round and in all, passed back from the final answer; stored on each step of the agent’s round.',
  teams: 'agents that answer in rounds and rate each other',
  input: Input,
  run: ({ rounds, edges }) => {
    requireRows('edges', edges, Math.max(rounds.length - 1, 0), 'the steps from one round to the next');
    const agents = [...new Set(rounds.flatMap((round) => Object.keys(round)))];
    const end = rounds.findLastIndex((round) => Object.values(round).some(({ active }) => active));
    const importance: number[][] = rounds.map(() => agents.map(() => 0));
    for (let t = end; t >= 0; t--) {
      importance[t] =
        t === end
          ? sharedByAgreeing(rounds[t]!, agents)
          : passedBack(rounds[t]!, edges[t]!, importance[t + 1]!, agents);
    }
    const named = (values: readonly number[]) => Object.fromEntries(agents.map((agent, i) => [agent, values[i]!]));
    return {
      per_round: importance.map(named),
      total: named(agents.map((_, i) => sum(importance.map((round) => round[i]!)))),
    };
  },
  judged: {
    over: 'episode',
    reads: ['feedback'],
    writes: ['credits', 'scores'],
    /** `agrees` is read for the agents active in the last round. The episode's score is the sum over its agents, each beside it. */
    each: (facts) => {
      const agrees = truthsOn(facts.feedback, 'step', 'agrees');
      const edgesIn = listening(facts, ({ ratings, n_peers }) => edgeWeights(ratings, n_peers));
      return ({ episode: { episode_id }, steps }) => {
        const found = edgesIn(episode_id, steps);
        if (typeof found === 'string') return found;
        const { rounds, edges } = found;
        const answers = (own: readonly StepFacts[]) =>
          own.map((step) => agrees.get(stepKey(step.episode_id, step.step_id))).findLast((one) => one !== undefined);
        if ([...rounds.at(-1)!.values()].some((own) => answers(own) === undefined)) return 'no_agreement';
        const agents = new Set(rounds.flatMap((round) => [...round.keys()]));
        return {
          input: {
            rounds: rounds.map((round) =>
              Object.fromEntries(
                [...agents].map((agent) => {
                  const own = round.get(agent);
                  return [agent, { active: own !== undefined, agrees: own !== undefined && (answers(own) ?? false) }];
                }),
              ),
            ),
            edges,
          },
          rows: (output) => {
            const total = Object.values(output.total).reduce((sum, one) => sum + one, 0);
            return [
              score(`e/${episode_id}`, total, null, { by_agent: output.total }),
              ...onRounds(steps, rounds, (agent, t, step) =>
                credit(step, output.per_round[t]![agent]!, null, { total: output.total[agent] }),
              ),
            ];
          },
        };
      };
    },
  },
});

function sharedByAgreeing(round: Input['rounds'][number], agents: readonly string[]): number[] {
  const agree = agents.map((agent) => round[agent]?.active === true && round[agent].agrees);
  const count = agree.filter(Boolean).length;
  return agree.map((one) => (one ? 1 / count : 0));
}

function passedBack(
  round: Input['rounds'][number],
  edges: Input['edges'][number],
  next: readonly number[],
  agents: readonly string[],
): number[] {
  return agents.map((agent) =>
    round[agent]?.active === true ? sum(agents.map((other, i) => (edges[agent]?.[other] ?? 0) * next[i]!)) : 0,
  );
}

/**
 * Whether a round's answers agree enough to stop: more than two thirds of those who may speak give the same one.
 *
 * Source: SALT-NLP/DyLAN, code/demo/LLMLP.py. Verified (code). n is how many agents may speak in the round, not how many have; so 3 of 4,
 * but all 3 of 3. A null answer agrees with nobody.
 * Kept: floor(2n/3), strictly more. Dropped: who may speak in a round, which the ranker says. Open: nothing known.
 */
export const dylanConsensus = method({
  name: 'dylan_consensus',
  kind: 'process',
  source: 'DyLAN: SALT-NLP/DyLAN, code/demo/LLMLP.py; verified (code)',
  version: 1,
  summary:
    'True iff one answer was given by more than two thirds of the agents; stored as 1 or 0 on each step of the round.',
  teams: 'agents that answer in rounds and rate each other',
  input: Type.Object({ answers: Type.Array(nullable(Type.String())), n: Type.Integer({ minimum: 1 }) }),
  run: ({ answers, n }): boolean => {
    const given = groupBy(
      answers.filter((answer) => answer !== null),
      (answer) => answer,
    );
    return [...given.values()].some((same) => same.length > Math.floor((2 * n) / 3));
  },
  judged: {
    over: 'episode',
    reads: ['feedback', 'decisions'],
    writes: ['credits', 'scores'],
    /**
     * 1 for each step of a round that came to a consensus, 0 for one of another; the score of an episode is that of its last round. Who may
     * speak in a round is the latest decision of kind `speakers` for that turn, a list or a count; else every agent of the episode.
     */
    each: (facts, ask) => {
      const answers = textsOn(facts.feedback, 'step', 'answer');
      return ({ episode: { episode_id }, steps }) => {
        const rounds = roundsOf(steps);
        if (typeof rounds === 'string') return rounds;
        const everybody = new Set(steps.map(({ agent }) => agent ?? '')).size;
        const eligible = (turn: number): number => {
          const decision = facts.decisions
            .get(episode_id)
            ?.findLast((one) => one.kind === 'speakers' && one.turn === turn)?.decision;
          if (Array.isArray(decision)) return decision.length;
          return typeof decision === 'number' ? decision : everybody;
        };
        const agreed: (boolean | null | string)[] = rounds.map((round) => {
          const own = [...round.values()].map((texts) => texts.at(-1)!);
          const given = own.map((step) => answers.get(stepKey(step.episode_id, step.step_id)) ?? null);
          if (given.every((answer) => answer === null)) return null;
          return ask.answer({ answers: given, n: eligible(own[0]!.turn!) });
        });
        const outcomeAt = (t: number): [number | null, string | null] => {
          const one = agreed[t];
          if (typeof one === 'boolean') return [Number(one), null];
          return [null, one ?? 'no_answers'];
        };
        return [
          score(`e/${episode_id}`, ...outcomeAt(rounds.length - 1), { rounds: agreed }),
          ...onRounds(steps, rounds, (_, t, step) => credit(step, ...outcomeAt(t))),
        ];
      };
    },
  },
});
