/** What is collected step by step from whole runs: libraries of agents, training sets of roles. */
import { groupBy } from '../../../ingest/events/group-by.ts';
import { type EpisodeFacts, type StepFacts, stepKey } from './facts.ts';
import { type Judgement, verdictOn } from './judgement.ts';
import type { MethodFacts } from './method-facts.ts';
import { onwardOf } from './over-episodes.ts';

export const idOf = ({ episode_id, step_id }: StepFacts): string => stepKey(episode_id, step_id);

export type MethodRun = {
  readonly episode: EpisodeFacts;
  readonly steps: readonly StepFacts[];
  readonly onward: ReadonlySet<StepFacts>;
};

export const runsWithSteps = ({ episodes, steps }: MethodFacts): MethodRun[] => {
  const own = groupBy(steps, (step) => step.episode_id);
  return episodes.map((episode) => {
    const mine = own.get(episode.episode_id) ?? [];
    return { episode, steps: mine, onward: new Set(onwardOf(mine)) };
  });
};

/** A verdict on every step, and one on the episode: kept if any of its steps is, with the steps under the name they were collected by. */
export function collected(
  { episode, steps, onward }: MethodRun,
  collector: 'agent' | 'role',
  kept: ReadonlySet<string | number>,
  reason: string | null,
): Judgement[] {
  const taken = steps.filter((step) => kept.has(idOf(step)));
  const detail = Object.fromEntries(
    [...groupBy(taken, (step) => step[collector]!)].map(([name, own]) => [name, own.map(({ step_id }) => step_id)]),
  );
  const unknown = reason !== null && UNKNOWN.has(reason);
  const keep = taken.length > 0 || (unknown || steps.length === 0 ? null : false);
  const why = steps.length === 0 ? (reason ?? 'no_steps') : (reason ?? 'no_collected_step');
  return [
    verdictOn(episode, keep, taken.length > 0 ? null : why, detail),
    ...steps.map((step) => {
      if (kept.has(idOf(step))) return verdictOn(step, true, null);
      if (unknown) return verdictOn(step, null, reason);
      if (!onward.has(step)) return verdictOn(step, false, 'not_chosen');
      return step[collector] === null ? verdictOn(step, null, `no_${collector}`) : verdictOn(step, false, reason);
    }),
  ];
}

/** Reasons that stand for unknown, and not for wrong. */
const UNKNOWN = new Set(['missing_reward', 'outcome_unknown', 'no_base']);
