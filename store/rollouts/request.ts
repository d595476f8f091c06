/** A rollout is requested: its tasks are read where a filter names them, and a second request with the same id changes nothing. */
import { TroupeError } from '../../errors.ts';
import { canonicalJson } from '../../ingest/json.ts';
import { appendOwn } from '../../ingest/own-event.ts';
import type { Session } from '../db/pool.ts';
import { firstOf, query, sql } from '../db/query.ts';
import { type JobContext, requestJob } from '../jobs/jobs.ts';
import { parseTaskFilter } from '../select.ts';
import { requireReleasedTeam, type TeamVersion, teamDraft, teamVersion } from '../teams/version.ts';
import { ROLLOUT, type RolloutAsked, type RolloutSpec, rolloutSpec } from './rollout.ts';
import { storedTasks } from './stored-tasks.ts';

/**
 * The whole spec. A filter and the released version of a team are read for a new rollout only: one that is there keeps its own.
 * @throws TroupeError `usage` where it names no tasks or both tasks and a filter, `recipe_invalid` for the filter, `conflict` where the id names another job
 */
export async function rolloutWithTasks(
  { db }: Pick<JobContext, 'db'>,
  id: string,
  { tasks, team, ...asked }: RolloutAsked,
): Promise<RolloutSpec> {
  if ((tasks === undefined) === (asked.tasks_where === undefined))
    throw new TroupeError('usage', 'A rollout should have either tasks or tasks_where.', { field: 'tasks' });
  const where = asked.tasks_where === undefined ? null : parseTaskFilter(asked.tasks_where, 'tasks_where');
  const known = await firstOf(
    db,
    query.selectFrom('troupe.job_queue').select(['kind', 'spec']).where('job_id', '=', id),
  );
  const before = known?.kind === ROLLOUT ? (known.spec as RolloutSpec) : null;
  const listed = where === null ? tasks! : (before?.tasks ?? (await storedTasks(db, where, asked.tasks_where)));
  const version = team && (await versionAsked(db, team, before?.team));
  const spec = rolloutSpec(id, { ...asked, tasks: listed, ...(version === undefined ? {} : { team: version }) });
  if (known !== undefined && (before === null || canonicalJson(before) !== canonicalJson(spec)))
    throw new TroupeError(
      'conflict',
      `There is already a job ${id}, requested with other tasks or options. Choose another id, or repeat exactly that request.`,
      { field: 'id' },
    );
  return spec;
}

async function versionAsked(
  db: JobContext['db'],
  { name, definition }: NonNullable<RolloutAsked['team']>,
  before: TeamVersion | undefined,
): Promise<TeamVersion> {
  if (definition !== undefined) return teamVersion(name, definition);
  return before?.name === name ? before : db.transaction((tx) => requireReleasedTeam(tx, name));
}

/** Requests it. @throws TroupeError as `rolloutWithTasks` does */
export async function requestRollout(context: JobContext, id: string, asked: RolloutAsked): Promise<RolloutSpec> {
  const spec = await rolloutWithTasks(context, id, asked);
  if (spec.team !== undefined)
    await appendOwn(context.log, [teamDraft(spec.team, context.now().toISOString())], 'usage');
  await requestJob(context, { job_id: id, kind: ROLLOUT, spec });
  return spec;
}

/** When it was requested, in RFC 3339, and the seconds since then by the server's clock. @throws TroupeError `not_found` */
export async function requestedOf(
  db: Pick<Session, 'query'>,
  id: string,
): Promise<{ readonly requestedAt: string; readonly age: number }> {
  const row = await firstOf(
    db,
    query
      .selectFrom('troupe.job_queue')
      .select([
        sql<string>`to_char(requested_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`.as('requestedAt'),
        sql<number>`extract(epoch from clock_timestamp() - requested_at)::float8`.as('age'),
      ])
      .where('job_id', '=', id),
  );
  if (row === undefined) throw new TroupeError('not_found', `There is no rollout ${id}.`);
  return row;
}
