/**
 * Runs that were made from other runs. A replay is an episode with the tag `replay_of`, which names the run that it goes back to, and the tag
 * `intervention`, which records what was changed: its `kind` (correct, perturb, edit or repair), the `step_id` of the run that was
 * changed or `step`, its place among the steps that the run went on from, and, by kind, `agent`, `hypothesis`, `fulfilled` or
 * `repaired`. A replay may be of another group, so what reads replays is run over everything that is judged together.
 */
import { groupBy } from '../../../ingest/events/group-by.ts';
import type { EpisodeFacts, StepFacts } from './facts.ts';
import type { MethodFacts } from './method-facts.ts';
import { onwardOf } from './over-episodes.ts';
import { textTag } from './played.ts';

type Tags = Readonly<Record<string, unknown>>;

/** The text of a tag of an episode; null where it has none. */
export const tagged = ({ tags }: EpisodeFacts, name: string): string | null => textTag(tags, name);

/** A run that broke off did not succeed; of one whose outcome nobody knows nothing is known. */
export function succeeded({ outcome }: EpisodeFacts): boolean | null {
  if (outcome === null || outcome === 'unknown') return null;
  return outcome === 'success';
}

export type StepPlace = { readonly index: number; readonly step: StepFacts };
export type Replay = { readonly episode: EpisodeFacts; readonly intervention: Tags; readonly place: StepPlace | null };
export type ReplayRun = {
  readonly episode: EpisodeFacts;
  /** The steps it went on from. */
  readonly steps: readonly StepFacts[];
  /** Of the run that this one replays; null where it replays none. */
  readonly of: string | null;
  readonly intervention: Tags;
  /** Replays of it, in the order of their ids. */
  readonly replays: readonly Replay[];
};

/** Every judged episode as a run, with its replays among the others. */
export function runsOf({ episodes, steps }: MethodFacts): ReplayRun[] {
  const own = groupBy(steps, (step) => step.episode_id);
  const runs = episodes.map((episode) => ({
    episode,
    steps: onwardOf(own.get(episode.episode_id) ?? []),
    of: tagged(episode, 'replay_of'),
    intervention: interventionOf(episode),
  }));
  const replays = groupBy(
    runs.filter((run) => run.of !== null),
    (run) => run.of!,
  );
  return runs.map((run) => ({
    ...run,
    replays: (replays.get(run.episode.episode_id) ?? []).map(({ episode, intervention }) => ({
      episode,
      intervention,
      place: placeOf(run.steps, intervention),
    })),
  }));
}

function interventionOf({ tags }: EpisodeFacts): Tags {
  const intervention = tags?.intervention;
  return typeof intervention === 'object' && intervention !== null && !Array.isArray(intervention)
    ? (intervention as Tags)
    : {};
}

/** Where in these steps the intervention changed something; null where it names no step, or none of these. */
export function placeOf(steps: readonly StepFacts[], { step_id, step }: Tags): StepPlace | null {
  const index = typeof step_id === 'string' ? steps.findIndex((one) => one.step_id === step_id) : step;
  const found = typeof index === 'number' ? steps[index] : undefined;
  return found === undefined ? null : { index: index as number, step: found };
}

export const ofKind = (run: ReplayRun, kind: string): Replay[] =>
  run.replays.filter(({ intervention }) => intervention.kind === kind);

export const bit = (success: boolean): 0 | 1 => (success ? 1 : 0);

/** The agent that the intervention names, else that of the step it changed. */
export const agentAt = ({ intervention, place }: Pick<Replay, 'intervention' | 'place'>): string | null =>
  typeof intervention.agent === 'string' ? intervention.agent : (place?.step.agent ?? null);
