/** A run of a plan with its stages, as the command, the API and the page show it. */
import { countText, TroupeError } from '../../../errors.ts';
import { isRecord } from '../../../ingest/events/json.ts';
import type { Session } from '../../db/pool.ts';
import { firstOf, query, rowsOf, sql } from '../../db/query.ts';

/** Job kinds whose result is the report of a gate. */
export const GATE_KINDS = ['gate', 'play', 'canary', 'decision'] as const;

export type RunOfPlan = { readonly run: Job; readonly stages: readonly Job[] };
type Job = Awaited<ReturnType<typeof jobsBelow>>[number];

/** The run and its stages in the order in which they were requested; null where no run of a plan has this id. */
export async function readRun(db: Session, id: string): Promise<RunOfPlan | null> {
  const jobs = await jobsBelow(db, id);
  const run = jobs.find(({ job_id }) => job_id === id);
  return run?.kind === 'plan' ? { run, stages: jobs.filter((job) => job !== run) } : null;
}

const jobsBelow = (db: Session, id: string) =>
  rowsOf(
    db,
    query
      .selectFrom('traj.jobs')
      .select([
        sql<string>`job_id`.as('job_id'),
        'kind',
        'state',
        'outcome',
        'requested_at',
        'started_at',
        'finished_at',
        'spec',
        'result',
        'error',
      ])
      .where((job) => job.or([job('job_id', '=', id), job(sql<boolean>`starts_with(job_id, ${`${id}/`})`, '=', true)]))
      .orderBy('requested_at'),
  );

/**
 * How far a run is: ended, waiting for a person or for live episodes, or going on.
 * @throws TroupeError `not_found`, `training_failed` with the reason of the run
 */
export async function stateOfRun(db: Pick<Session, 'query'>, run: string) {
  const row = await firstOf(
    db,
    query
      .selectFrom('troupe.job_queue as r')
      .leftJoin('troupe.job_queue as w', (of) => of.onRef('w.job_id', '=', 'r.waits_for').on('w.state', '=', 'waiting'))
      .select(['r.state', 'r.outcome', 'r.result', 'r.error', 'w.job_id as decision', 'w.kind'])
      .where('r.job_id', '=', run),
  );
  if (row === undefined) throw new TroupeError('not_found', `There is no run ${run}; troupe plan list lists them.`);
  const { outcome, result, error, decision, kind } = row;
  if (row.state === 'finished') {
    if (outcome === 'done') return { state: 'finished' as const, result };
    throw new TroupeError('training_failed', `Run ${run} ${outcome}: ${isRecord(error) ? error.message : 'no reason'}`);
  }
  return decision !== null && (kind === 'decision' || kind === 'canary')
    ? {
        state: 'undecided' as const,
        decision,
        waits_for: kind === 'canary' ? ('canary' as const) : ('person' as const),
      }
    : { state: 'running' as const };
}

/** Minutes that a run has lasted, until now or its end, without the time in which it had ended; null where it is not in the queue. */
export async function runMinutes(db: Pick<Session, 'query'>, id: string): Promise<number | null> {
  const until = sql`case when q.state = 'finished' then f.finished_at end`;
  const row = await firstOf(
    db,
    query
      .selectFrom('troupe.job_queue as q')
      .leftJoin('facts.jobs as f', 'f.job_id', 'q.job_id')
      .select(
        sql<number>`(extract(epoch from coalesce(${until}, clock_timestamp()) - q.requested_at) / 60)::float8`.as(
          'minutes',
        ),
      )
      .where('q.job_id', '=', id),
  );
  return row?.minutes ?? null;
}

/** Why a run, or a stage, has no result, or ended before all of its rounds; null for others. */
export function whyEnded({ error, result }: Pick<Job, 'error' | 'result'>): string | null {
  if (error !== null) return isRecord(error) ? String(error.message) : String(error);
  if (!isRecord(result)) return null;
  return [result.ended_early, result.nothing_to_learn].find((why) => typeof why === 'string') ?? null;
}

/** What a stage made, in a few words; null where its result names nothing of these. */
export function madeBy(result: unknown): string | null {
  if (!isRecord(result)) return null;
  const { dataset_id, rows, checkpoint_id, reason, episodes, groups, policies, tasks, removed, adapter } = result;
  const { rounds, released } = result;
  if (Array.isArray(rounds))
    return `${countText(rounds.length, 'round')}, ${released === true ? '' : 'nothing '}released`;
  if (isRecord(groups))
    return `${countText(Number(groups.complete), 'group')} complete, ${groups.partial} partial${missingText(result.partial)}`;
  if (isRecord(policies))
    return Object.entries(policies)
      .map(([policy, checkpoint]) => `${policy} answered by ${checkpoint ?? 'nobody yet'}`)
      .join(', ');
  if (Array.isArray(tasks))
    return `${countText(tasks.length, 'task')} written by ${countText(Number(episodes), 'episode')}`;
  if (Array.isArray(removed)) return `without ${removed.join(', ')}`;
  if (dataset_id !== undefined)
    return [`dataset ${dataset_id}`, ...Object.entries(isRecord(rows) ? rows : {}).map(rowsText)].join(', ');
  if (checkpoint_id !== undefined)
    return `checkpoint ${checkpoint_id}${isRecord(adapter) ? `, an adapter over ${adapter.base}` : ''}`;
  if (reason !== undefined) return String(reason);
  return episodes === undefined ? null : countText(Number(episodes), 'episode');
}

const rowsText = ([split, rows]: [string, unknown]): string => countText(Number(rows), `${split} row`);

/** Of partial groups how many samples are missing, by the code of the reason. */
function missingText(partial: unknown): string {
  const missing = new Map<string, number>();
  for (const group of Array.isArray(partial) ? partial.filter(isRecord) : [])
    for (const why of Array.isArray(group.why) ? group.why.filter(isRecord) : [])
      missing.set(String(why.code), (missing.get(String(why.code)) ?? 0) + Number(why.samples));
  const parts = [...missing].map(([code, samples]) => `${countText(samples, 'sample')} ${code}`);
  return parts.length === 0 ? '' : ` (${parts.join(', ')})`;
}
