/**
 * Ticks of a schedule that started no job, run afterwards: each job learns from what had been recorded at its tick. The scheduler starts
 * them one after the other, the oldest first, under the id of their tick, so that none runs twice.
 */
import { got, TroupeError } from '../../../errors.ts';
import { normaliseTime } from '../../../ingest/events/decode.ts';
import { isRecord } from '../../../ingest/events/json.ts';
import type { Db } from '../../db/pool.ts';
import { anyOf, query, rowsOf } from '../../db/query.ts';
import { ticksOf } from './definition.ts';
import type { ScheduleDefinition } from './definition-schema.ts';
import { fireId, instantOf } from './due.ts';
import type { Schedule } from './schedule-state.ts';

/** Both ends belong to it; milliseconds since 1970. */
export type TimeSpan = { readonly from: number; readonly to: number };

/** The span as people write it; a date is its beginning in UTC. @throws TroupeError `usage` for what is no time */
export function spanOf(
  { from, to }: { readonly from: string; readonly to?: string | undefined },
  now: number,
): TimeSpan {
  const timeOf = (name: string, text: string) => {
    const time = normaliseTime(/^\d{4}-\d\d-\d\d$/.test(text) ? `${text}T00:00:00Z` : text);
    if (time !== undefined) return Date.parse(time);
    throw new TroupeError(
      'usage',
      `${name} of a backfill should be a date or a time with its zone, such as 2026-05-01 or 2026-05-01T03:00:00Z, but it is ${got(text)}.`,
    );
  };
  return { from: timeOf('from', from), to: to === undefined ? now : timeOf('to', to) };
}

/** Ticks of one span. */
const MOST = 100;

/**
 * Ticks in the span that have no job, the oldest first.
 * @throws TroupeError `usage` for a job that cannot look back, a span that ends in the future, and one with too many ticks
 */
export async function ticksWithoutJob(
  db: Pick<Db, 'query'>,
  { name, definition, state }: Schedule,
  { from, to }: TimeSpan,
  now: number,
): Promise<string[]> {
  requireLookingBack(definition.job);
  if (to > now || from > to)
    throw new TroupeError(
      'usage',
      `A backfill should go from an earlier time to one up to now, but it goes from ${instantOf(from)} to ${instantOf(to)}.`,
    );
  const ticks = ticksOf(definition, Date.parse(state.since));
  const found: string[] = [];
  for (let tick = ticks.next(from - 1); tick !== null && tick <= to; tick = ticks.next(tick)) {
    if (found.length === MOST)
      throw new TroupeError('usage', `A backfill should have up to ${MOST} ticks, but these are more; end it earlier.`);
    found.push(instantOf(tick));
  }
  const ids = found.map((instant) => fireId(name, instant));
  const queued = query.selectFrom('troupe.job_queue').select('job_id').where('job_id', '=', anyOf(ids));
  const recorded = query.selectFrom('facts.jobs').select('job_id').where('job_id', '=', anyOf(ids));
  const known = new Set((await rowsOf(db, queued.union(recorded))).map(({ job_id }) => job_id));
  return found.filter((_, i) => !known.has(ids[i]!));
}

/** @throws TroupeError `usage` for a job that does not read what is recorded, but plays or trains on what it names itself */
function requireLookingBack({ kind, spec }: ScheduleDefinition['job']): void {
  if (kind === 'freeze') return;
  const plan = kind === 'plan' && isRecord(spec.plan) ? spec.plan : null;
  if (plan !== null && plan.rollout === undefined && plan.team === undefined) return;
  throw new TroupeError(
    'usage',
    `A backfill needs a job that reads what was recorded: a plan without rollout and team, or a freeze, but it is ${
      plan === null ? `a job of kind ${got(kind)}` : 'a plan that plays new episodes'
    }.`,
  );
}
