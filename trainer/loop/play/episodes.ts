/**
 * The events of a rollout. An episode joins its group when its attempt was accepted, not before: what failed or came late is recorded, and is
 * no member. Every event follows from rows of the queue alone, so that it can be appended again after a crash and is known then.
 */
import type { Draft } from '../../../ingest/events/events.ts';
import { hashId } from '../../../ingest/events/json.ts';
import type { EventLog } from '../../../ingest/log/log.ts';
import { appendOwn } from '../../../ingest/log/own-event.ts';
import type { Session } from '../../../store/db/pool.ts';
import { anyOf, query, rowsOf } from '../../../store/db/query.ts';
import { MAST_TAXONOMY } from '../../../store/evaluate/attribution/ask-mast.ts';
import type { AttemptRow, LeasedAttempt } from '../../../store/loop/play/attempts.ts';
import { faultOf } from '../../../store/loop/play/faults.ts';
import { interventionOf, type ReplayPlace } from '../../../store/loop/play/replay.ts';
import type { RolloutSpec, RolloutTask } from '../../../store/loop/play/rollout.ts';
import type { Play } from './play.ts';

const SOURCE = '/rollouts';

/** The statements of the tasks. `at`: when the rollout was asked for. A task that was stated in the same words before is known. */
export const taskDrafts = (tasks: readonly RolloutTask[], at: string): Draft[] =>
  tasks.map((task) => {
    const { task_id, prompt, input, answer, ...rest } = task as RolloutTask & Record<string, unknown>;
    const query = prompt ?? input;
    const named = Object.fromEntries(Object.entries(rest).filter(([name, value]) => isNamed(name, value)));
    const unmapped = Object.fromEntries(Object.entries(rest).filter(([name]) => !Object.hasOwn(named, name)));
    return {
      name: 'task.defined',
      source: SOURCE,
      id: `${task_id.slice(0, 100)}/${hashId(task)}`,
      time: at,
      data: {
        task_id,
        ...(query === undefined ? {} : { query: typeof query === 'string' ? query : JSON.stringify(query) }),
        ...(answer === undefined ? {} : { ground_truth: answer }),
        ...named,
        ...(Object.keys(unmapped).length === 0 ? {} : { unmapped }),
      },
    } as Draft;
  });

/** Fields of a file of tasks that the event has too, by which stored tasks are found again. */
const isNamed = (name: string, value: unknown): boolean =>
  name === 'tags'
    ? typeof value === 'object' && value !== null && !Array.isArray(value)
    : ['reference', 'tests', 'constraints'].includes(name) ||
      (['domain', 'split', 'difficulty'].includes(name) && typeof value === 'string' && value !== '');

const started = (
  { id, spec, startedAt, rollout, task, group_id, place }: Play<Pick<LeasedAttempt, 'id' | 'spec' | 'startedAt'>>,
  member: boolean,
): Draft => {
  return {
    name: 'episode.started',
    source: SOURCE,
    // Of equal times the greater id is the later one.
    id: member ? `${id}/started/accepted` : `${id}/started`,
    time: startedAt,
    data: {
      episode_id: id,
      task_id: task.task_id,
      attempt: spec.attempt,
      ...(member ? { group_id, group_size: rollout.samples } : {}),
      ...(rollout.team === undefined ? {} : { team_id: rollout.team.team_id }),
      ...(rollout.policies === undefined ? {} : { policies: rollout.policies }),
      tags: {
        ...rollout.tags,
        ...rollout.params,
        rollout: spec.rollout,
        sample: spec.sample,
        ...(place === null ? {} : replayTags(rollout, place, member)),
      },
    },
  };
};

/** What was not accepted is no replay, and is not tagged as one. */
function replayTags({ replay }: RolloutSpec, place: ReplayPlace, member: boolean): Record<string, unknown> {
  if (!member) return { replay_tried: place.episode_id };
  const intervention = replay === undefined ? null : interventionOf(replay, place);
  return {
    replay_of: place.episode_id,
    ...(place.step_id === null ? {} : { replay_from: place.step_id }),
    ...(intervention === null ? {} : { intervention }),
  };
}

/** A fault that was put into a step, as a label of it. */
function faultDrafts({ id, result, rollout }: Play<AttemptRow>): Draft[] {
  const fault = rollout.replay?.fault;
  const step = result?.replay?.step_id ?? null;
  if (fault === undefined || step === null) return [];
  return [
    {
      name: 'feedback.recorded',
      source: SOURCE,
      id: `${id}/fault`,
      time: result!.at,
      data: {
        feedback_id: `${id}/fault`,
        target: { kind: 'step', id: step, episode_id: id },
        kind: 'failure',
        name: faultOf(fault).mode,
        value: 1,
        taxonomy: { ...MAST_TAXONOMY },
        by: 'env',
        annotator: 'troupe',
        explanation: `The fault ${fault} was put into this step.`,
      },
    } as Draft,
  ];
}

/** What is recorded before a team begins. */
export const startDraft = (play: Play): Draft => started(play, false);

/** What is recorded of a play that ended; nothing of one that never began. */
function endDrafts(play: Play<AttemptRow>): Draft[] {
  const { id, result, startedAt, outcome } = play;
  if (result === null || startedAt === null) return [];
  const begun = { ...play, startedAt };
  const drafts: Draft[] = [started(begun, false)];
  if (outcome === 'done') drafts.push(started(begun, true), ...faultDrafts(play));
  if (result.reward !== null)
    drafts.push({
      name: 'feedback.recorded',
      source: SOURCE,
      id: `${id}/reward`,
      time: result.at,
      data: {
        feedback_id: `${id}/reward`,
        target: { kind: 'episode', id, episode_id: id },
        kind: 'reward',
        name: 'reward',
        value: result.reward,
        by: 'code',
      },
    });
  if (result.closed_by_team !== true)
    drafts.push({
      name: 'episode.finished',
      source: SOURCE,
      id: `${id}/finished${result.late ? '/late' : ''}`,
      time: result.at,
      data: {
        episode_id: id,
        outcome: result.outcome,
        stop_reason: result.late ? `late: ${result.stop_reason}` : result.stop_reason,
        ...(result.answer === null ? {} : { answer: result.answer }),
      },
    });
  return drafts;
}

/** Records how these plays ended; what is recorded already is known. */
export const announce = (log: EventLog, plays: readonly Play<AttemptRow>[]): Promise<number> =>
  appendOwn(log, plays.flatMap(endDrafts), 'usage');

/**
 * The same of plays that were likely announced: only those are appended whose last event, which is appended after all others of the
 * play, the log does not hold as far as it is archived. Returns how many events are new.
 */
export async function announceMissing(
  { db, log }: { readonly db: Pick<Session, 'query'>; readonly log: EventLog },
  plays: readonly Play<AttemptRow>[],
): Promise<number> {
  const ends = plays.map(endDrafts).filter((drafts) => drafts.length > 0);
  const known = await rowsOf(
    db,
    query
      .selectFrom('troupe.events')
      .select('id')
      .where('key', '=', anyOf(plays.map(({ id }) => `e/${id}`)))
      .where('source', '=', SOURCE)
      .where('id', '=', anyOf(ends.map((drafts) => drafts.at(-1)!.id))),
  );
  const held = new Set(known.map(({ id }) => id));
  const missing = ends.filter((drafts) => !held.has(drafts.at(-1)!.id));
  return appendOwn(log, missing.flat(), 'usage');
}
