/**
 * A play: one attempt of a team at a task under given weights, for a rollout, a side of a gate or a replay. Whether this process plays it or a
 * worker does, the team gets the same facts, and it is judged, retried and recorded by the same rules.
 */
import type { AttemptEnd, AttemptError, AttemptRow, LeasedAttempt } from '../../../store/loop/play/attempts.ts';
import { drawnBy, groupAt, type RolloutSpec } from '../../../store/loop/play/rollout.ts';
import type { RecordedPlay } from './recorded.ts';

/** An attempt with what it plays: its rollout, task and group, and the place of a replay. */
export const playOf = <Attempt extends Pick<AttemptRow, 'id' | 'spec'>>(rollout: RolloutSpec, attempt: Attempt) => ({
  ...attempt,
  ...groupAt(rollout, attempt.spec.rollout, attempt.spec.task),
  rollout,
});
export type Play<Attempt = LeasedAttempt> = Attempt & Omit<ReturnType<typeof playOf>, 'id' | 'spec'>;

/** What the team of a play gets. `base_path` is that of the gateway; another agent takes the place of the last name. */
export const factsOf = (play: Play, agent: string) => {
  const { id, spec, rollout, group_id, task, deadlineAt } = play;
  return {
    attempt_id: id,
    rollout_id: spec.rollout,
    episode_id: id,
    group_id,
    task,
    sample: spec.sample,
    attempt: spec.attempt,
    ...drawnBy(rollout, play, spec.sample),
    ...(rollout.team === undefined ? {} : { team: rollout.team }),
    base_path: `${episodePath(id)}/a/${encodeURIComponent(agent)}/v1`,
    deadline: deadlineAt,
  };
};

/** Below the address of the API. */
export const episodePath = (id: string): string => `/e/${encodeURIComponent(id)}`;

/** Whether the tables decide how a play ends: one that failed may be a replay that diverged. */
export const needsRecord = ({ place }: Pick<Play, 'place'>, failed: boolean): boolean => !failed || place !== null;

/**
 * Why a play is not accepted, by what the tables hold of its episode; null where it is. Pure.
 * @param said.failure what its team or its worker says; null where it ended well
 * @param said.nothing the reason where nothing is recorded
 */
export function refusalOf(
  { failure, nothing }: { readonly failure: AttemptError | null; readonly nothing: string },
  { seen, replayed }: RecordedPlay,
): AttemptError | null {
  if (replayed?.diverged) return { code: 'diverged', message: replayed.diverged };
  if (failure !== null) return failure;
  if (seen.entries === 0) return { code: 'nothing_recorded', message: nothing };
  if (['error', 'timeout', 'aborted'].includes(seen.outcome ?? ''))
    return { code: 'reported', message: `The team closed the episode with the outcome ${seen.outcome}.` };
  return replayed?.unreached ? { code: 'diverged', message: replayed.unreached } : null;
}

/** How a play ends that is accepted. Pure. */
export const acceptedEnd = (
  said: Pick<AttemptEnd['result'], 'at' | 'outcome' | 'stop_reason' | 'answer' | 'reward'>,
  { seen, replayed }: RecordedPlay,
): AttemptEnd => ({
  outcome: 'done',
  result: {
    ...said,
    ...(seen.closed ? { closed_by_team: true } : {}),
    ...(replayed === null ? {} : { replay: { step_id: replayed.step_id, calls: replayed.calls } }),
  },
  error: null,
});
