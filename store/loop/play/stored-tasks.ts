/** Tasks that are recorded already, chosen by a filter, in the form in which a team gets them. */
import { got, TroupeError } from '../../../errors.ts';
import { isRecord } from '../../../ingest/events/json.ts';
import type { Session } from '../../db/pool.ts';
import { firstOf, query, rowsOf, sql } from '../../db/query.ts';
import { TASK_FIELDS } from '../../filter/filter-fields.ts';
import { type Filter, lowerOver } from '../../filter/select.ts';
import type { RolloutTask } from './rollout.ts';

/** Bytes of all tasks of a rollout as JSON: they travel in one event. */
const MOST_TASK_BYTES = 24 * 1024 * 1024;

const TASKS = query
  .selectFrom('facts.tasks as t')
  .select(['t.task_id', 't.query', 't.content', 't.ground_truth', 't.reference', 't.tests', 't.constraints'])
  .select(['t.origin', 't.split', 't.difficulty', 't.domain', 't.tags', 't.unmapped']);
type TaskRow = Awaited<ReturnType<(typeof TASKS)['executeTakeFirstOrThrow']>>;

/** A stored task as a line of a file of tasks. */
const asPlayed = ({ task_id, query: asked, content, ground_truth, unmapped, ...named }: TaskRow): RolloutTask => ({
  ...(isRecord(unmapped) ? unmapped : {}),
  ...Object.fromEntries(Object.entries(named).filter(([, value]) => value !== null)),
  task_id,
  ...((asked ?? content) === null ? {} : { prompt: asked ?? content }),
  ...(ground_truth === null ? {} : { answer: ground_truth }),
});

/** One stored task; null where there is none of that id. */
export async function storedTask(db: Pick<Session, 'query'>, id: string): Promise<RolloutTask | null> {
  const row = await firstOf(db, TASKS.where('t.task_id', '=', id));
  return row === undefined ? null : asPlayed(row);
}

/**
 * The stored tasks that a filter selects, in the order of their ids.
 * @throws TroupeError `not_found` where there is none, `too_large` above `MOST_TASK_BYTES`
 */
export async function storedTasks(db: Pick<Session, 'query'>, where: Filter, written: unknown): Promise<RolloutTask[]> {
  const rows = await rowsOf(db, TASKS.where(lowerOver(where, TASK_FIELDS)).orderBy(sql`t.task_id collate "C"`));
  if (rows.length === 0)
    throw new TroupeError(
      'not_found',
      `No stored task fits ${got(written)}; \`troupe sql "select task_id, domain, split from traj.tasks"\` lists them.`,
      { field: 'tasks_where' },
    );
  const tasks = rows.map(asPlayed);
  if (Buffer.byteLength(JSON.stringify(tasks)) > MOST_TASK_BYTES)
    throw new TroupeError(
      'too_large',
      `The ${tasks.length} tasks have more than ${MOST_TASK_BYTES / 2 ** 20} MiB; choose fewer.`,
      { field: 'tasks_where' },
    );
  return tasks;
}
