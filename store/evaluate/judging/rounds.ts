/**
 * DyLAN: what agents that answer in rounds think of each other. A round is a turn; an agent is active in it where it has a step in it that
 * the episode went on from. What an agent gets in a round is copied to its steps of that round.
 */
import { groupBy } from '../../../ingest/events/group-by.ts';
import type { Assembled } from './assembled.ts';
import type { FeedbackFact } from './episode-facts.ts';
import { type StepFacts, stepKey } from './facts.ts';
import { credit, type Judgement } from './judgement.ts';
import { numberOf } from './named-feedback.ts';
import { onwardOf } from './over-episodes.ts';

/** Of one round the steps of each agent that was active in it, in the order of their output. */
type Round = ReadonlyMap<string, readonly StepFacts[]>;

/** In their order; a text where a step has no turn. */
export function roundsOf(steps: readonly StepFacts[]): Round[] | string {
  const onward = onwardOf(steps);
  if (onward.length === 0) return 'not_chosen';
  if (onward.some(({ turn }) => turn === null)) return 'no_turn';
  return [...groupBy(onward, (step) => step.turn!)]
    .sort(([a], [b]) => a - b)
    .map(([, round]) => groupBy(round, (step) => step.agent ?? ''));
}

/** Each step of the episode: what its agent has in its round, or why it has nothing. */
export const onRounds = (
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
export function listening(facts: Assembled, weigh: Weigh) {
  return (episode: string, steps: readonly StepFacts[]) => {
    const rounds = roundsOf(steps);
    if (typeof rounds === 'string') return rounds;
    const ratings = ratingsOf(facts.feedback.get(episode) ?? []);
    if (ratings.size === 0 && rounds.length > 1) return 'no_ratings';
    const edges = edgesOf(rounds, ratings, weigh);
    return typeof edges === 'string' ? edges : { rounds, edges };
  };
}
