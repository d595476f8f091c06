/** Watches releases: each is a row of the queue that no worker takes, looked at until it is decided. */
import { Type } from 'typebox';
import { countText } from '../../../errors.ts';
import type { Db } from '../../db/pool.ts';
import { anyOf, firstOf, query, rowsOf, type SqlBool, sql } from '../../db/query.ts';
import { waitProjected } from '../../projecting/positions.ts';
import { checkedSpec, endWaiting, type JobContext } from '../../queue/jobs/jobs.ts';
import { inForce, inReleaseTurn, type Release, ROLLBACK, recordRelease, releasesOf } from '../release/releases.ts';
import { answeredBy, IS_LIVE, liveUnitsOf, liveValue, MOST_LIVE } from './live-units.ts';
import {
  evidenceOf,
  evidenceText,
  type FullWatchRules,
  type LiveUnit,
  type WatchReport,
  WatchRules,
  watchedBy,
} from './watch.ts';

export const WATCH = 'watch';
const Spec = Type.Object({ release_id: Type.String(), rules: WatchRules });

/** The job that watches a release of a plan. */
export const watchSpec = (release_id: string, rules: WatchRules): Record<string, unknown> => ({ release_id, rules });

/** Releases that are watched now: the jobs that wait. */
async function openWatches(db: Db): Promise<{ readonly job_id: string; readonly spec: unknown }[]> {
  return rowsOf(
    db,
    query
      .selectFrom('troupe.job_queue')
      .select(['job_id', 'spec'])
      .where('kind', '=', WATCH)
      .where('state', '=', 'waiting')
      .orderBy('requested_at'),
  );
}

/**
 * Looks at every watch once: ends those that are decided, and goes back where the metric fell. What it appends has ids made of the job's, so
 * that two that look at once, or one that was killed in between, release nothing twice.
 */
export async function lookAtWatches(context: JobContext): Promise<WatchReport[]> {
  const { db, log } = context;
  const open = await openWatches(db);
  if (open.length === 0) return [];
  await waitProjected(db, { log });
  const reports: WatchReport[] = [];
  for (const { job_id, spec } of open) {
    const found = await watchNow(db, job_id, spec, context.now());
    const report = found.outcome === 'fell' ? await inReleaseTurn(db, () => goBack(context, job_id, found)) : found;
    reports.push(report);
    if (report.outcome !== 'watching') await endWaiting(context, { job_id, kind: WATCH, result: report });
  }
  return reports;
}

/** The result that a watch would have now. Nothing is changed. */
export async function watchNow(db: Db, job_id: string, spec: unknown, now: Date): Promise<WatchReport> {
  const { release_id, rules: asked } = checkedSpec(Spec, spec);
  const rules = watchedBy(asked);
  const say = (
    outcome: WatchReport['outcome'],
    reason: string,
    more: Partial<Pick<WatchReport, 'evidence' | 'rollback'>> = {},
  ): WatchReport => ({
    format: 'troupe-watch/1',
    release_id,
    outcome,
    reason,
    rules,
    evidence: null,
    rollback: null,
    ...more,
  });
  const all = await releasesOf(db);
  const last = all.at(-1);
  const at = all.findIndex((one) => one.release_id === release_id);
  const released = all[at];
  if (released === undefined) return say('watching', `Release ${release_id} is not in the tables yet.`);
  const back = inForce(all.slice(0, at + 1)).at(-2);
  if (back === undefined)
    return say('no_data', 'It is the first release: there is nothing to compare it with, and nothing to go back to.');
  // Whoever was killed between going back and saying so finds the release that went back.
  if (last?.release_id === rollbackId(job_id))
    return say('fell', await reasonOf(db, last.release_id), {
      rollback: { release_id: last.release_id, back_to: back.release_id },
    });
  if (last !== released)
    return say('superseded', `Release ${last?.release_id} took its place before anything was decided.`);
  const since = (await releaseNamed(db, release_id))?.released_at ?? null;
  const evidence = evidenceOf(
    rules,
    await liveUnits(db, rules, back, released, null),
    await liveUnits(db, rules, released, back, since),
  );
  const text = evidenceText(rules, evidence);
  if (evidence.fell) return say('fell', `The metric fell: ${text}.`, { evidence });
  const over = since !== null && now.getTime() - Date.parse(since) > rules.hours * 3_600_000;
  if (!over) return say('watching', evidence.lacks ?? `No fall is found so far: ${text}.`, { evidence });
  return evidence.lacks === null
    ? say('held', `No fall was found in ${countText(rules.hours, 'hour')}: ${text}.`, { evidence })
    : say('no_data', `After ${countText(rules.hours, 'hour')} the outcome is unknown. ${evidence.lacks}`, { evidence });
}

const rollbackId = (job: string): string => `${job}/rollback`;

/** Restores the whole map of the release before, in a new release with the reason. */
async function goBack({ db, log, now }: JobContext, job: string, found: WatchReport): Promise<WatchReport> {
  if (found.rollback !== null) return found;
  // Another release may have been recorded since the evidence was read.
  await waitProjected(db, { log });
  const all = await releasesOf(db);
  const at = all.findIndex((one) => one.release_id === found.release_id);
  // As it was when the watched release came into force: another look may have gone back meanwhile.
  const back = inForce(all.slice(0, at + 1)).at(-2)!;
  const release_id = rollbackId(job);
  const last = all.at(-1)?.release_id;
  if (last === release_id) return { ...found, rollback: { release_id, back_to: back.release_id } };
  if (last !== found.release_id)
    return { ...found, outcome: 'superseded', reason: `Release ${last} took its place. ${found.reason}` };
  const reason = `back to release ${back.release_id}. ${found.reason}`;
  await recordRelease(log, {
    release_id,
    policies: back.policies,
    teams: back.teams,
    reason,
    by: ROLLBACK,
    source: '/watch',
    time: now().toISOString(),
  });
  await waitProjected(db, { log });
  return { ...found, rollback: { release_id, back_to: back.release_id } };
}

const releaseNamed = (db: Db, release_id: string) =>
  firstOf(
    db,
    query.selectFrom('facts.releases').select(['reason', 'released_at']).where('release_id', '=', release_id),
  );

/** Why a release was made; a sentence. */
export const reasonOf = async (db: Db, release_id: string): Promise<string> =>
  (await releaseNamed(db, release_id))?.reason ?? 'No reason was given.';

/**
 * Live episodes that have ended and that are a map's, groups as one, in the order in which they ended. A map is distinguished from the other by the
 * policies and versions of teams in which they differ: its weights answered the episode, or the episode names its version, and nothing of
 * it is the other's. Episodes of rollouts and gates are not live.
 * @param since only episodes that began then or later; null: the last ones
 */
async function liveUnits(
  db: Db,
  { metric, before }: FullWatchRules,
  map: Release,
  other: Release,
  since: string | null,
): Promise<LiveUnit[]> {
  const ours = { weights: only(map.policies, other.policies), versions: only(map.teams, other.teams) };
  const theirs = { weights: only(other.policies, map.policies), versions: only(other.teams, map.teams) };
  if (ours.weights.length + ours.versions.length === 0) return [];
  const ended = sql<string>`coalesce(e.finished_at, e.last_at)`;
  const rows = await rowsOf(
    db,
    query
      .selectFrom(answeredOrPlayed(ours, theirs).as('s'))
      .innerJoin('facts.episodes as e', 'e.episode_id', 's.episode_id')
      .select(['e.episode_id', 'e.group_id', 'e.task_id', liveValue(metric).as('value')])
      .where('e.closed', '=', true)
      .where(IS_LIVE)
      .$if(since !== null, (rows) =>
        rows.where(sql<SqlBool>`coalesce(e.started_at, e.last_at) >= ${since}::timestamptz`),
      )
      .groupBy(['e.episode_id', 'e.group_id', 'e.task_id', 'e.reward', 'e.outcome', 'e.finished_at', 'e.last_at'])
      .having(sql<SqlBool>`bool_or(s.ours) and not bool_or(s.theirs)`)
      .orderBy(ended, since === null ? 'desc' : 'asc')
      .orderBy('e.episode_id')
      .limit(since === null ? before : MOST_LIVE),
  );
  if (since === null) rows.reverse();
  return liveUnitsOf(rows);
}

/** What a map has and the other has not: pairs of a policy and its weights, or of a team and its version. */
type Pairs = readonly (readonly [string, string])[];
const only = (map: Readonly<Record<string, string>>, other: Readonly<Record<string, string>>): Pairs =>
  Object.entries(map).filter(([name, id]) => other[name] !== id);

type ReleaseChange = { readonly weights: Pairs; readonly versions: Pairs };

/** A row for each episode that weights of the one map or the other answered, and for each that names a version of a team. */
function answeredOrPlayed(ours: ReleaseChange, theirs: ReleaseChange) {
  const ids = (pairs: Pairs) => anyOf(pairs.map(([, id]) => id));
  const played = query
    .selectFrom('facts.episodes as p')
    .select(['p.episode_id', sql<boolean>`p.team_id = ${ids(ours.versions)}`.as('ours')])
    .select(sql<boolean>`p.team_id = ${ids(theirs.versions)}`.as('theirs'))
    .where('p.team_id', '=', ids([...ours.versions, ...theirs.versions]));
  return query
    .selectFrom('facts.calls as c')
    .select(['c.episode_id', answeredBy(ours.weights).as('ours'), answeredBy(theirs.weights).as('theirs')])
    .where('c.checkpoint_id', '=', ids([...ours.weights, ...theirs.weights]))
    .groupBy('c.episode_id')
    .unionAll(played);
}

/** The watch of a release, decided or as it is now; null where it has none. */
export async function watchOf(db: Db, release_id: string, now: Date): Promise<WatchReport | null> {
  const row = await firstOf(
    db,
    query
      .selectFrom('troupe.job_queue')
      .select(['job_id', 'spec', 'state', 'result'])
      .where('kind', '=', WATCH)
      .where(sql<SqlBool>`spec ->> 'release_id' = ${release_id}`)
      .limit(1),
  );
  if (row === undefined) return null;
  if (row.state === 'finished') return (row.result as WatchReport | null) ?? null;
  return watchNow(db, row.job_id, row.spec, now);
}
