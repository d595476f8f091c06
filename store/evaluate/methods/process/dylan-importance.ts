/**
 * How much each agent contributed to a team's final answer, round by round, backwards along who listened to whom.
 *
 * Source: SALT-NLP/DyLAN, code/demo/LLMLP.py. Verified (code). In the last round with an active agent, the active agents that agree with the
 * final answer share 1; where nobody agrees all have 0 (the source divides by zero). Before that, an active agent has the importance of
 * its listeners, weighted by how much they listened. `edges[t][a][b]` is the weight of a's message of round t in b at round t + 1;
 * a missing edge weighs 0.
 * Kept: the sum over rounds. Dropped: choosing the team by importance. Open: nothing known.
 */

import { type Static, Type } from 'typebox';
import { type StepFacts, stepKey } from '../../judging/facts.ts';
import { credit, score } from '../../judging/judgement.ts';
import { truthsOn } from '../../judging/named-feedback.ts';
import { overEpisodes } from '../../judging/over-episodes.ts';
import { listening, onRounds } from '../../judging/rounds.ts';
import { method } from '../method.ts';
import { edgeWeights } from '../peer-ratings.ts';
import { requireRows } from '../refuse.ts';
import { sum } from '../statistics.ts';

const Input = Type.Object({
  rounds: Type.Array(Type.Record(Type.String(), Type.Object({ active: Type.Boolean(), agrees: Type.Boolean() }))),
  edges: Type.Array(Type.Record(Type.String(), Type.Record(Type.String(), Type.Number({ minimum: 0 })))),
});
type Input = Static<typeof Input>;

type Importance = {
  readonly per_round: readonly Readonly<Record<string, number>>[];
  readonly total: Readonly<Record<string, number>>;
};

export const dylanImportance = method({
  name: 'dylan_importance',
  kind: 'process',
  source: 'DyLAN: SALT-NLP/DyLAN, code/demo/LLMLP.py; verified (code)',
  version: 1,
  summary:
    'Importance of each agent in each round and in all, passed back from the final answer; stored on each step of the agent’s round.',
  input: Input,
  run: ({ rounds, edges }): Importance => {
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
    reads: ['feedback'],
    writes: ['credits', 'scores'],
    /** `agrees` is read for the agents active in the last round. The episode's score is the sum over its agents, each beside it. */
    rows: (facts, ask) => {
      const agrees = truthsOn(facts.feedback, 'step', 'agrees');
      const edgesIn = listening(facts, ({ ratings, n_peers }) => edgeWeights(ratings, n_peers));
      return overEpisodes(facts, credit, ({ episode_id }, steps) => {
        const found = edgesIn(episode_id, steps);
        if (typeof found === 'string') return found;
        const { rounds, edges } = found;
        const answers = (own: readonly StepFacts[]) =>
          own.map((step) => agrees.get(stepKey(step.episode_id, step.step_id))).findLast((one) => one !== undefined);
        if ([...rounds.at(-1)!.values()].some((own) => answers(own) === undefined)) return 'no_agreement';
        const agents = new Set(rounds.flatMap((round) => [...round.keys()]));
        const output = ask.answer({
          rounds: rounds.map((round) =>
            Object.fromEntries(
              [...agents].map((agent) => {
                const own = round.get(agent);
                return [agent, { active: own !== undefined, agrees: own !== undefined && (answers(own) ?? false) }];
              }),
            ),
          ),
          edges,
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
