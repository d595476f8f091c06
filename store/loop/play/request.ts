/** A rollout is requested: its tasks are read where a filter names them, and a second request with the same id changes nothing. */
import { TroupeError } from '../../../errors.ts';
import { canonicalJson } from '../../../ingest/events/json.ts';
import { appendOwn } from '../../../ingest/log/own-event.ts';
import type { Session } from '../../db/pool.ts';
import { firstOf, query, sql } from '../../db/query.ts';
import { parseTaskFilter } from '../../filter/select.ts';
import { type JobContext, requestJob } from '../../queue/jobs/jobs.ts';
import { requireReleasedTeam, type TeamVersion, teamDraft, teamVersion } from '../team/version.ts';
import { findReplay } from './places.ts';
import { ROLLOUT, type RolloutRequest, type RolloutSpec, rolloutSpec } from './rollout.ts';
import { storedTasks } from './stored-tasks.ts';

/**
 * The whole spec. A filter, what is replayed, and the released version of a team are read for a new rollout only: one that is there keeps
 * its own.
 * @throws TroupeError `usage` where it does not name either tasks, a filter or a replay, `recipe_invalid` for the filter, `conflict` where the
 *   id names another job, and as `findReplay` does
 */
export async function rolloutWithTasks(
  { db }: Pick<JobContext, 'db'>,
  id: string,
  { tasks, team, ...asked }: RolloutRequest,
): Promise<RolloutSpec> {
  if ([tasks, asked.tasks_where, asked.replay].filter((one) => one !== undefined).length !== 1)
    throw new TroupeError('usage', 'A rollout should have one of tasks, tasks_where and replay.', { field: 'tasks' });
  const where = asked.tasks_where === undefined ? null : parseTaskFilter(asked.tasks_where, 'tasks_where');
  const known = await firstOf(
    db,
    query.selectFrom('troupe.job_queue').select(['kind', 'spec']).where('job_id', '=', id),
  );
  const before = known?.kind === ROLLOUT ? (known.spec as RolloutSpec) : null;
  const { replay } = asked;
  const listed =
    replay !== undefined
      ? before?.replay === undefined
        ? await findReplay(db, replay)
        : {
            tasks: before.tasks,
            ...(before.places ? { places: before.places } : {}),
            ...(before.team ? { team: before.team } : {}),
          }
      : { tasks: where === null ? tasks! : (before?.tasks ?? (await storedTasks(db, where, asked.tasks_where))) };
  const version = team && (await versionAsked(db, team, before?.team));
  const spec = rolloutSpec(id, { ...asked, ...listed, ...(version === undefined ? {} : { team: version }) });
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
  { name, definition }: NonNullable<RolloutRequest['team']>,
  before: TeamVersion | undefined,
): Promise<TeamVersion> {
  if (definition !== undefined) return teamVersion(name, definition);
  return before?.name === name ? before : db.transaction((tx) => requireReleasedTeam(tx, name));
}

/** Requests it. @throws TroupeError as `rolloutWithTasks` does */
export async function requestRollout(context: JobContext, id: string, asked: RolloutRequest): Promise<RolloutSpec> {
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
