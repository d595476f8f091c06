/** What operators are notified of: events of the log that record how a run, a gate, a release or a schedule ended. */
import type { EventData, EventName } from '../../../ingest/events/events.ts';
import { hashId, isRecord } from '../../../ingest/events/json.ts';
import { isKnown, upcast } from '../../../ingest/events/upcast/catalogue.ts';
import type { Place } from '../../../ingest/log/postgres.ts';
import type { Db } from '../../db/pool.ts';
import { query, rowsOf, sql } from '../../db/query.ts';
import { ROLLBACK } from '../../loop/release/releases.ts';
import { logEnds } from '../../projecting/positions.ts';
import { type Positions, partitionName } from '../../projecting/read-batch.ts';

export const HAPPENINGS = [
  'run_done',
  'run_failed',
  'gate_refused',
  'gate_cut_short',
  'released',
  'rolled_back',
  'schedule_paused',
  'tick_skipped',
] as const;
export type HappeningName = (typeof HAPPENINGS)[number];

export type Happening = {
  /** The same whenever it is sent, so that a receiver recognises what it got twice. */
  readonly id: string;
  readonly event: HappeningName;
  /** Job of the plan, or of the schedule. */
  readonly run: string | null;
  readonly schedule: string | null;
  readonly reason: string | null;
  /** The command that shows more. */
  readonly report: string | null;
  readonly at: string | null;
};

export type HappeningPage = {
  /** In the order of time, and of each partition. */
  readonly happenings: readonly (Happening & { readonly place: Place })[];
  /** Up to where the log was read. */
  readonly until: Positions;
  /** Places that were read. */
  readonly read: number;
};

/** Places of a partition that are read at once. */
export const WINDOW = 5000;
/** Characters of a reason. */
const LONGEST_REASON = 2000;

/** What happened from these positions on; from the beginning of a partition that they lack. */
export async function happeningsSince(db: Db, positions: Positions): Promise<HappeningPage> {
  const begins = new Map(positions.map((place) => [partitionName(place), place.position]));
  const until: Place[] = [];
  const happenings: (Happening & { place: Place })[] = [];
  let read = 0;
  for (const { log, partition, position: end } of await logEnds(db)) {
    const begin = begins.get(partitionName({ log, partition })) ?? 0;
    const to = Math.max(begin, Math.min(end, begin + WINDOW));
    if (to === begin) {
      until.push({ log, partition, position: to });
      continue;
    }
    const rows = await rowsOf(
      db,
      query
        .selectFrom('troupe.events as e')
        .leftJoin('troupe.job_queue as q', (on) => on.on('q.job_id', '=', sql<string>`e.data ->> 'job_id'`))
        .select(['e.key', 'e.source', 'e.id', 'e.name', 'e.type_version', 'e.time', 'e.data', 'e.position', 'q.kind'])
        .where('e.log', '=', log)
        .where('e.partition', '=', partition)
        .where('e.position', '>=', begin)
        .where('e.position', '<', to)
        .where('e.name', 'in', ['job.finished', 'policy.released', 'schedule.changed', 'schedule.skipped'])
        .orderBy('e.position'),
    );
    // What only a newer Troupe can read is left to it, with all that stands behind it: a sender that skipped it would lose the notification.
    const strange = rows.find((row) => !isKnown(row));
    const stop = strange === undefined ? to : Number(strange.position);
    until.push({ log, partition, position: stop });
    read += stop - begin;
    for (const { key, source, id, name, type_version, time, data, position, kind } of rows) {
      if (Number(position) >= stop) break;
      const found = happeningOf(name, upcast(name as EventName, type_version, data), kind);
      if (found === null) continue;
      const reason = found.reason?.slice(0, LONGEST_REASON) ?? null;
      const place = { log, partition, position: Number(position) };
      const at = time === null ? null : new Date(time).toISOString();
      happenings.push({ id: hashId('notify', key, source, id), ...found, reason, at, place });
    }
  }
  return { happenings: inOrder(happenings), until, read };
}

/** By time, but never before what stands earlier in the same partition. */
function inOrder<T extends { readonly at: string | null; readonly place: Place }>(happenings: readonly T[]): T[] {
  const newest = new Map<string, string>();
  return happenings
    .map((one) => {
      const name = partitionName(one.place);
      const before = newest.get(name) ?? '';
      const at = one.at !== null && one.at > before ? one.at : before;
      newest.set(name, at);
      return { one, at };
    })
    .sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0))
    .map(({ one }) => one);
}

type FoundHappening = Pick<Happening, 'event' | 'run' | 'schedule' | 'reason' | 'report'>;

function happeningOf(name: string, data: unknown, kind: string | null): FoundHappening | null {
  if (name === 'job.finished') return ofJob(data as EventData<'job.finished'>, kind);
  if (name === 'policy.released') {
    const { release_id, reason, by } = data as EventData<'policy.released'>;
    const event = by === ROLLBACK ? 'rolled_back' : 'released';
    return { event, ...runOf(release_id), reason: reason ?? null, report: 'troupe policies' };
  }
  if (name === 'schedule.changed') {
    const { schedule, change, reason } = data as EventData<'schedule.changed'>;
    if (change !== 'paused') return null;
    return { event: 'schedule_paused', run: null, schedule, reason: reason ?? null, report: showOf(schedule) };
  }
  const { schedule, first_due_at, reason, detail } = data as EventData<'schedule.skipped'>;
  const why = `The tick of ${first_due_at} started no job (${reason})${detail ? `: ${detail}` : ''}`;
  return { event: 'tick_skipped', run: null, schedule, reason: why, report: showOf(schedule) };
}

/** A plan, any job that a schedule requested, or a gate of a plan. A cancelled job sends no notification. */
function ofJob(
  { job_id, outcome, result, error }: EventData<'job.finished'>,
  kind: string | null,
): FoundHappening | null {
  const gate = /^(.+)\/\d+\/gate$/.exec(job_id)?.[1];
  if (gate !== undefined && outcome === 'done' && isRecord(result) && result.passed === false)
    return {
      event: result.cut_short === undefined ? 'gate_refused' : 'gate_cut_short',
      ...runOf(job_id),
      run: gate,
      reason: textOf(result.reason),
      report: planOf(gate),
    };
  const { schedule, run } = runOf(job_id);
  if (outcome === 'cancelled' || (kind !== 'plan' && !(schedule !== null && run === job_id))) return null;
  const report = kind === 'plan' ? planOf(job_id) : showOf(schedule!);
  if (outcome === 'done') return { event: 'run_done', run: job_id, schedule, reason: null, report };
  return { event: 'run_failed', run: job_id, schedule, reason: isRecord(error) ? textOf(error.message) : null, report };
}

/** The job of a schedule that an id is made of. */
function runOf(id: string): { readonly run: string | null; readonly schedule: string | null } {
  const [job, schedule] = /^schedule\/([^/]+)\/[^/]+/.exec(id) ?? [];
  if (schedule !== undefined) return { run: job!, schedule };
  // A release of a plan is named after run and round.
  return { run: /^(.+)\/\d+(\/watch\/rollback)?$/.exec(id)?.[1] ?? null, schedule: null };
}

const textOf = (value: unknown): string | null => (typeof value === 'string' ? value : null);
const showOf = (schedule: string): string => `troupe schedule show ${schedule}`;
const planOf = (run: string): string => `troupe plan show ${run}`;
