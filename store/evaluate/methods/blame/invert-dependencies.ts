/**
 * Turns the flow of data around, so that blame runs from who used something to who made it.
 *
 * Source: CDC-MAS, arXiv 2509.08682. Secondary. Edges are (producer, consumer) and come out as (consumer, producer), in order.
 * Kept: every edge turned, none added or joined. Dropped: the search for causes step by step, which is not published in
 * a form that could be checked. Open: whether repeats of an edge count.
 */

import { type Static, Type } from 'typebox';
import { groupBy } from '../../../../ingest/events/group-by.ts';
import type { Assembled } from '../../judging/assembled.ts';
import { blame, nobody } from '../../judging/blamed.ts';
import type { Judgement } from '../../judging/judgement.ts';
import { method } from '../method.ts';
import { Key } from '../shapes.ts';

const Input = Type.Object({ edges: Type.Array(Type.Tuple([Key, Key])) });
type Edge = Static<typeof Input>['edges'][number];

export const invertDependencies = method({
  name: 'invert_dependencies',
  kind: 'blame',
  source: 'CDC-MAS: arXiv 2509.08682; secondary',
  version: 1,
  summary: 'Reverses each edge from producer to consumer.',
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
function edgesIn({ feedback }: Assembled, episode: string): readonly (readonly [string, string])[] | null {
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
