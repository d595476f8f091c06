import { groupBy } from '../../../ingest/events/group-by.ts';
import type { FeedbackFact } from './episode-facts.ts';
import { type EpisodeFacts, stepKey } from './facts.ts';
import type { MethodFacts } from './method-facts.ts';
import { numberOf } from './named-feedback.ts';

/** Feedback of kind failure with this name labels who made the decisive mistake, and where; any other name is a failure mode. */
export const MISTAKE = 'mistake';

const isTrue = ({ by }: FeedbackFact): boolean => by === 'human' || by === 'env';

export const annotatorOf = ({ annotator, by }: FeedbackFact): string => annotator ?? by ?? 'unknown';

type LabelledCase = {
  readonly episode: EpisodeFacts;
  readonly gold: readonly FeedbackFact[];
  readonly predicted: ReadonlyMap<string, FeedbackFact[]>;
};

/** The failures of each episode labelled as true, apart from what annotators predict; and who predicted anything at all. */
export function labelled(
  { episodes, feedback }: MethodFacts,
  counts: (fact: FeedbackFact) => boolean,
): { cases: LabelledCase[]; annotators: string[] } {
  const annotators = new Set<string>();
  const cases = episodes.map((episode) => {
    const facts = (feedback.get(episode.episode_id) ?? []).filter((fact) => fact.kind === 'failure' && counts(fact));
    const predicted = groupBy(
      facts.filter((fact) => !isTrue(fact)),
      annotatorOf,
    );
    for (const annotator of predicted.keys()) annotators.add(annotator);
    return { episode, gold: facts.filter(isTrue), predicted };
  });
  return { cases: cases.filter(({ gold }) => gold.length > 0), annotators: [...annotators].sort() };
}

export const agentsBySteps = ({ steps }: MethodFacts): ReadonlyMap<string, string | null> =>
  new Map(steps.map(({ episode_id, step_id, agent }) => [stepKey(episode_id, step_id), agent]));

export const agentIn = (
  agents: ReadonlyMap<string, string | null>,
  { target_kind, target_id, episode_id }: FeedbackFact,
) => (target_kind === 'agent' ? target_id : (agents.get(stepKey(episode_id, target_id ?? '')) ?? null));

/** A mode that was denied was not found. */
export const isMode = (fact: FeedbackFact): boolean => fact.name !== MISTAKE && numberOf(fact) !== 0;
