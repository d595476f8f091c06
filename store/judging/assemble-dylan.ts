/**
 * DyLAN: what agents that answer in rounds think of each other. A round is a turn; an agent is active in it where it has a step in it that
 * the episode went on from. What an agent gets in a round is copied to its steps of that round.
 */
import { dylanEdgeWeights } from '../methods/process/dylan-edge-weights.ts';
import { runMethod } from '../methods/run.ts';
import { groupBy } from '../methods/statistics.ts';
import type { Assemble, Assembled, Assemblers } from './assembler.ts';
import type { FeedbackFact } from './episode-facts.ts';
import { type StepFacts, stepKey } from './facts.ts';
import { credit, type Judgement, score } from './judgement.ts';
import { numberOf, textsOn, truthsOn } from './named-feedback.ts';
import { answerTo, onwardOf, overEpisodes } from './over-episodes.ts';

/** Of one round the steps of each agent that was active in it, in the order in which they spoke. */
type Round = ReadonlyMap<string, readonly StepFacts[]>;

/** In their order; a text where a step does not say its turn. */
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
  say: (agent: string, round: number, step: StepFacts) => Judgement,
): Judgement[] => {
  const said = new Map<StepFacts, Judgement>();
  for (const [t, round] of rounds.entries())
    for (const [agent, own] of round) for (const step of own) said.set(step, say(agent, t, step));
  return steps.map((step) => said.get(step) ?? credit(step, null, 'not_chosen'));
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
 * did not rate every one of them, the method is told fewer ratings than peers.
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
    const heard = (i: number) => Object.fromEntries([...given].map(([rater, weights]) => [rater, weights[i]!]));
    const between: Edges = Object.fromEntries(peers.map(([peer], i) => [peer, heard(i)]));
    edges.push(between);
  }
  return edges;
}

/** Rounds and edges of an episode, or why there are none. */
function listening(facts: Assembled, weigh: Weigh) {
  return (episode: string, steps: readonly StepFacts[]) => {
    const rounds = roundsOf(steps);
    if (typeof rounds === 'string') return rounds;
    const ratings = ratingsOf(facts.feedback.get(episode) ?? []);
    if (ratings.size === 0 && rounds.length > 1) return 'no_ratings';
    const edges = edgesOf(rounds, ratings, weigh);
    return typeof edges === 'string' ? edges : { rounds, edges };
  };
}

/** The credit of a message is the mean weight that it had in those who listened to it, each of which stands beside it. */
const byRatings: Assemble = (method, params, facts) => {
  const edgesIn = listening(facts, (input) => answerTo<number[]>(method, { ...input, ...params }));
  return overEpisodes(method, facts, ({ episode_id }, steps) => {
    const found = edgesIn(episode_id, steps);
    if (typeof found === 'string') return found;
    return onRounds(steps, found.rounds, (agent, t, step) => {
      const weights = found.edges[t]?.[agent];
      if (weights === undefined) return credit(step, null, 'last_round');
      const all = Object.values(weights);
      return credit(step, all.reduce((sum, one) => sum + one, 0) / all.length, null, { weights });
    });
  });
};

/** `agrees` is asked of those who spoke in the last round. The episode's score is the sum over its agents, each beside it. */
const byImportance: Assemble = (method, params, facts) => {
  const agrees = truthsOn(facts.feedback, 'step', 'agrees');
  const edgesIn = listening(facts, (input) => runMethod(dylanEdgeWeights, { ...input, ratings: [...input.ratings] }));
  return overEpisodes(method, facts, ({ episode_id }, steps) => {
    const found = edgesIn(episode_id, steps);
    if (typeof found === 'string') return found;
    const { rounds, edges } = found;
    const said = (own: readonly StepFacts[]) =>
      own.map((step) => agrees.get(stepKey(step.episode_id, step.step_id))).findLast((one) => one !== undefined);
    if ([...rounds.at(-1)!.values()].some((own) => said(own) === undefined)) return 'no_agreement';
    const agents = new Set(rounds.flatMap((round) => [...round.keys()]));
    const output = answerTo<{ per_round: Record<string, number>[]; total: Record<string, number> }>(method, {
      rounds: rounds.map((round) =>
        Object.fromEntries(
          [...agents].map((agent) => {
            const own = round.get(agent);
            return [agent, { active: own !== undefined, agrees: own !== undefined && (said(own) ?? false) }];
          }),
        ),
      ),
      edges,
      ...params,
    });
    if (typeof output === 'string') return output;
    const total = Object.values(output.total).reduce((sum, one) => sum + one, 0);
    return [
      score(`e/${episode_id}`, total, null, { by_agent: output.total }),
      ...onRounds(steps, rounds, (agent, t, step) =>
        credit(step, output.per_round[t]![agent]!, null, { total: output.total[agent] }),
      ),
    ];
  });
};

/**
 * 1 for each step of a round that came to a consensus, 0 for one of another; the score of an episode is that of its last round. Who may
 * speak in a round is the latest decision of kind `speakers` for that turn, a list or a count; else every agent of the episode.
 */
const byAnswers: Assemble = (method, params, facts) => {
  const answers = textsOn(facts.feedback, 'step', 'answer');
  return overEpisodes(method, facts, ({ episode_id }, steps) => {
    const rounds = roundsOf(steps);
    if (typeof rounds === 'string') return rounds;
    const everybody = new Set(steps.map(({ agent }) => agent ?? '')).size;
    const speakers = (turn: number): number => {
      const decision = facts.decisions
        .get(episode_id)
        ?.findLast((one) => one.kind === 'speakers' && one.turn === turn)?.decision;
      if (Array.isArray(decision)) return decision.length;
      return typeof decision === 'number' ? decision : everybody;
    };
    const agreed: (boolean | null | string)[] = rounds.map((round) => {
      const own = [...round.values()].map((said) => said.at(-1)!);
      const given = own.map((step) => answers.get(stepKey(step.episode_id, step.step_id)) ?? null);
      if (given.every((answer) => answer === null)) return null;
      return answerTo<boolean>(method, { answers: given, n: speakers(own[0]!.turn!), ...params });
    });
    const said = (t: number): [number | null, string | null] => {
      const one = agreed[t];
      if (typeof one === 'boolean') return [Number(one), null];
      return [null, one ?? 'no_answers'];
    };
    return [
      score(`e/${episode_id}`, ...said(rounds.length - 1), { rounds: agreed }),
      ...onRounds(steps, rounds, (_, t, step) => credit(step, ...said(t))),
    ];
  });
};

const writes = ['credits', 'scores'] as const;
export const DYLAN_ASSEMBLERS: Assemblers = {
  'peer ratings': { process: { over: byRatings, reads: ['feedback'], writes } },
  'peer ratings and agreement': { process: { over: byImportance, reads: ['feedback'], writes } },
  'answers by round': { process: { over: byAnswers, reads: ['feedback', 'decisions'], writes } },
};
