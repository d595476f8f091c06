/**
 * Repairs, as SiriuS augments its failures: a runner gets the output of an agent in an episode, beside the task with its answer, and
 * returns the output that the agent should have given. Its answer is put in the place of the step in a replay, where the prompt is the one that the agent had.
 */
import { TroupeError } from '../../../errors.ts';
import type { Session } from '../../../store/db/pool.ts';
import { anyOf, query, rowsOf, type SqlBool, sql } from '../../../store/db/query.ts';
import type { FoundReplay } from '../../../store/loop/play/places.ts';
import { NO_AGENT, type ReplayPlace } from '../../../store/loop/play/replay.ts';
import type { RolloutTask } from '../../../store/loop/play/rollout.ts';

type ReadSession = Pick<Session, 'query'>;

const repairOf = ({ step_id }: ReplayPlace): string => `repair/${step_id}`;

/** A task for each place: that of the episode, with `failed`, the step. It has a split of its own, so that no filter of tasks takes it for another. */
export async function repairTasks(db: ReadSession, { tasks, places }: FoundReplay): Promise<RolloutTask[]> {
  const steps = await rowsOf(
    db,
    query
      .selectFrom('facts.steps')
      .select(['text', sql<string>`call_id || '/' || candidate`.as('step_id')])
      .where('episode_id', '=', anyOf([...new Set(places.map(({ episode_id }) => episode_id))])),
  );
  const texts = new Map(steps.map(({ step_id, text }) => [step_id, text ?? '']));
  return places.map((place) => {
    const { episode_id, step_id, agent } = place;
    return {
      ...tasks[place.task]!,
      task_id: repairOf(place),
      split: 'repair',
      failed: { episode_id, step_id, agent, answer: texts.get(step_id!) ?? '' },
    };
  });
}

/**
 * The replay with the answers that a rollout of such tasks gave, without the places that it has none for.
 * @throws TroupeError `not_found` where it has none at all
 */
export async function withRepairs(
  db: ReadSession,
  rollout: string,
  { places, ...found }: FoundReplay,
): Promise<FoundReplay> {
  const rows = await rowsOf(
    db,
    query
      .selectFrom('facts.episodes')
      .select(['task_id', 'answer'])
      .where(sql<SqlBool>`tags ->> 'rollout' = ${rollout}`)
      .where('group_id', 'is not', null),
  );
  const answers = new Map(rows.map(({ task_id, answer }) => [task_id, answer as unknown]));
  const repaired = places.flatMap((place) => {
    const answer = answers.get(repairOf(place));
    return typeof answer === 'string' && answer !== ''
      ? [{ ...place, answers: { [place.agent ?? NO_AGENT]: answer } }]
      : [];
  });
  if (repaired.length > 0) return { ...found, places: repaired };
  throw new TroupeError('not_found', `No episode of ${rollout} has an answer as text to repair a step with.`);
}
