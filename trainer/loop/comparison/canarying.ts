/** Looks at canaries: each is a row of the queue that no worker takes, looked at until it is decided. All that is counted follows from the tables. */
import { countText, TroupeError } from '../../../errors.ts';
import { groupBy } from '../../../ingest/events/group-by.ts';
import { hashId } from '../../../ingest/events/json.ts';
import type { Db } from '../../../store/db/pool.ts';
import { anyOf, query, rowsOf, type SqlBool, sql } from '../../../store/db/query.ts';
import { standardDeviation } from '../../../store/evaluate/methods/statistics.ts';
import { answeredBy, IS_LIVE, liveValue } from '../../../store/loop/comparison/live-units.ts';
import { ASKED_POLICY, releasesOf } from '../../../store/loop/release/releases.ts';
import { waitProjected } from '../../../store/projecting/positions.ts';
import { endWaiting, type JobContext } from '../../../store/queue/jobs/jobs.ts';
import { CANARY, type CanaryUnit, decideCanary, sideOf } from './canary.ts';
import { type CanaryRequest, type OpenCanary, openCanaries } from './canary-traffic.ts';
import { EPISODE_USE, meanOfKnown, roleRewards, unitOf } from './measured.ts';
import type { GateSide } from './play.ts';
import type { GateReport } from './report.ts';

/** Looks at every canary once, and ends those that are decided. Two that look at once end each once. */
export async function lookAtCanaries(context: JobContext): Promise<{ job_id: string; report: GateReport }[]> {
  const { db, log } = context;
  const open = await openCanaries(db);
  if (open.length === 0) return [];
  await waitProjected(db, { log });
  const ended: { job_id: string; report: GateReport }[] = [];
  for (const canary of open) {
    const report = await canaryNow(db, canary, context.now());
    if (report.canary?.state !== 'ended') continue;
    if (await endWaiting(context, { job_id: canary.job_id, kind: CANARY, result: report }))
      ended.push({ job_id: canary.job_id, report });
  }
  return ended;
}

/**
 * Ends a canary by the word of a person, with the report of now, once the tables have what was recorded; null where none is under way.
 * @throws TroupeError `conflict` where it is decided already
 */
export async function endCanary(
  context: JobContext,
  run: string,
  { passed, reason, by }: { readonly passed: boolean; readonly reason: string; readonly by: string },
): Promise<{ readonly job_id: string; readonly report: GateReport } | null> {
  const { db, log } = context;
  const open = await openCanaryOf(db, run);
  if (open === null) return null;
  await waitProjected(db, { log });
  const { job_id } = open;
  const report = await canaryNow(db, open, context.now());
  if (report.canary?.state === 'ended')
    throw new TroupeError('conflict', `The canary ${job_id} is decided: ${report.reason}`, {
      hint: '`troupe run work` ends it at its next look.',
    });
  const canary = { ...report.canary!, state: 'ended' as const };
  const ended = { ...report, canary, by, passed, reason: `${reason} Until then: ${report.reason}` };
  return (await endWaiting(context, { job_id, kind: CANARY, result: ended })) ? { job_id, report: ended } : null;
}

/** The report that a canary would have now. Nothing is changed. */
export async function canaryNow(db: Db, { job_id, requested_at, asked }: OpenCanary, now: Date): Promise<GateReport> {
  const { rules, maps, guarded, teams } = asked;
  const { began_at, units, left_out, episodes } = await unitsOf(db, { job_id, requested_at, asked });
  const { sides, refused, outside, ...found } = decideCanary(units, rules, guarded);
  const values = units.flatMap(({ value }) => value ?? []);
  const hours = (since: string) => (now.getTime() - Date.parse(since)) / 3_600_000;
  const least = Math.min(sides.incumbent.units, sides.candidate.units);
  const baked = began_at !== null && hours(began_at) >= rules.bake_hours && least >= rules.at_least;
  const isSpent = asked.budget !== undefined && hours(requested_at) * 3600 >= asked.budget.seconds;
  const isOver = hours(began_at ?? requested_at) >= rules.hours || episodes >= rules.at_most || isSpent;
  const other = await otherRelease(db, asked);
  const end = (passed: boolean, reason: string) => ({ passed, reason, state: 'ended' as const });
  const decided =
    other !== null
      ? end(false, `Release ${other} changed what the candidate is compared with.`)
      : outside !== null
        ? end(
            false,
            `A value of ${outside} lies outside of ${rules.range.join(' to ')}: gate.range should hold all values.`,
          )
        : refused !== null
          ? end(false, `The candidate cannot pass any more: ${refused} (worse). ${found.reason}`)
          : found.passed && baked
            ? end(true, found.reason)
            : isOver
              ? end(
                  false,
                  `${isSpent ? 'The minutes of the budget of the plan were over. ' : ''}${overReason(found, rules, least)}`,
                )
              : { passed: false, reason: goingReason(found, rules, began_at, least), state: 'running' as const };
  return {
    format: 'troupe-gate/1',
    kind: CANARY,
    measure: rules.metric === 'reward' ? 'reward of a live episode' : 'success of a live episode',
    unit: rules.metric,
    ...found,
    passed: decided.passed,
    reason: decided.reason,
    rules,
    deviation: values.length < 2 ? null : standardDeviation(values, 1),
    models: Object.fromEntries([
      ...Object.keys(maps.candidate).map((policy) => [
        policy,
        { incumbent: maps.incumbent[policy]!, candidate: maps.candidate[policy]! },
      ]),
      ...(teams === undefined ? [] : [[`team ${teams.candidate.name}`, idsOf(teams)]]),
    ]),
    pinned: {
      task_set: `live episodes of ${job_id}`,
      scorer: rules.metric,
      models: teams === undefined ? hashId(maps) : hashId(maps, idsOf(teams)),
      environment: hashId(rules),
    },
    left_out,
    canary: { state: decided.state, share: rules.share, began_at, ...sides },
  };
}

const idsOf = ({ incumbent, candidate }: NonNullable<CanaryRequest['teams']>) => ({
  incumbent: incumbent.team_id,
  candidate: candidate.team_id,
});

type CanaryVerdict = { readonly passed: boolean; readonly reason: string };

const overReason = (found: CanaryVerdict, { at_least }: CanaryRequest['rules'], least: number): string =>
  found.passed
    ? `It ended with ${countText(least, 'episode')} of a side with a value; needed: ${at_least}. ${found.reason}`
    : `It ended without a decision. ${found.reason}`;

function goingReason(
  found: CanaryVerdict,
  rules: CanaryRequest['rules'],
  began_at: string | null,
  least: number,
): string {
  if (began_at === null) return 'It is under way, and the candidate has answered no call yet.';
  return found.passed
    ? `It is under way. ${found.reason} It has ${least} of ${countText(rules.at_least, 'episode')} a side, and bakes for ${countText(rules.bake_hours, 'hour')}.`
    : `It is under way. ${found.reason}`;
}

/** A release after which the incumbents are not what they were; null where none is. */
async function otherRelease(db: Db, { maps, teams }: CanaryRequest): Promise<string | null> {
  const last = (await releasesOf(db)).at(-1);
  if (last === undefined) return null;
  const version = teams?.incumbent;
  const same =
    Object.entries(maps.incumbent).every(([policy, id]) => (last.policies[policy] ?? id) === id) &&
    (version === undefined || (last.teams[version.name] ?? version.team_id) === version.team_id);
  return same ? null : last.release_id;
}

const OPEN = 'still open';
const OTHER = 'not answered by the weights of their side alone';
const OTHER_VERSION = 'not played in the version of their side';

type TeamEpisode = Awaited<ReturnType<typeof episodesOfTeams>>[number];

/**
 * Live episodes since the candidate answered its first call, groups as one, in the order in which they ended. The side is that of the name:
 * an episode that the other side answered too counts for it, without a value, so that calls that fail on one side are seen.
 */
async function unitsOf(db: Db, { job_id, requested_at, asked }: OpenCanary) {
  const { teams } = asked;
  const rows = await (teams === undefined
    ? episodesOf(db, asked, requested_at)
    : episodesOfTeams(db, asked.rules, teams, requested_at));
  const foreign = teams === undefined ? OTHER : OTHER_VERSION;
  const began_at = rows
    .filter(({ candidate }) => candidate)
    .reduce<string | null>((first, { first_at }) => earlier(first, first_at), null);
  const left_out = { [OPEN]: 0, [foreign]: 0 };
  if (began_at === null) return { began_at, units: [], left_out, episodes: rows.length };
  const since = rows.filter(({ first_at }) => first_at !== null && Date.parse(first_at) >= Date.parse(began_at));
  const rolesOf = await rewardsOf(db, asked, since);
  // The rows are in order, and a map gives its keys in that of their first row: a group stands where its last member ended.
  const byUnit = groupBy([...since].reverse(), ({ group_id, episode_id }) => group_id ?? episode_id);
  const units: CanaryUnit[] = [];
  for (const [key, members] of [...byUnit].reverse()) {
    if (members.some(({ closed }) => closed !== true)) {
      left_out[OPEN]! += members.length;
      continue;
    }
    const side = sideOf(job_id, key, asked.rules.share);
    const own = members.every((row) => row[side] && !row[side === 'candidate' ? 'incumbent' : 'candidate']);
    if (!own) left_out[foreign]! += members.length;
    const counted = own ? members.map((row) => ({ ...row, roles: rolesOf(row.episode_id) })) : [];
    const { usd, ...worth } = unitOf(counted, meanOfKnown);
    units.push({ side, family: members[0]!.family, ...worth, ...(own ? { usd } : {}) });
  }
  return { began_at, units, left_out, episodes: rows.length };
}

const earlier = (first: string | null, other: string | null): string | null =>
  other === null || (first !== null && Date.parse(first) <= Date.parse(other)) ? first : other;

/** Episodes that began after the canary and that a policy of it answered, in the order in which they ended. */
function episodesOf(db: Db, { rules, maps }: CanaryRequest, since: string): Promise<TeamEpisode[]> {
  const checkpoints = [...Object.values(maps.candidate), ...Object.values(maps.incumbent)];
  return rowsOf(
    db,
    query
      .selectFrom('facts.calls as c')
      .innerJoin('facts.episodes as e', 'e.episode_id', 'c.episode_id')
      .leftJoin('facts.tasks as t', 't.task_id', 'e.task_id')
      .select(['e.episode_id', 'e.group_id', 'e.closed', 't.domain as family', liveValue(rules.metric).as('value')])
      .select([
        ...EPISODE_USE,
        sql<string | null>`min(c.requested_at)`.as('first_at'),
        answeredBy(Object.entries(maps.candidate)).as('candidate'),
        answeredBy(Object.entries(maps.incumbent)).as('incumbent'),
      ])
      .where('c.checkpoint_id', '=', anyOf(checkpoints))
      .where(ASKED_POLICY, '=', anyOf(Object.keys(maps.candidate)))
      .where('e.last_at', '>=', since)
      .where(IS_LIVE)
      .groupBy(['e.episode_id', 't.domain'])
      .groupBy(['e.group_id', 'e.closed', 'e.reward', 'e.outcome', 'e.input_tokens', 'e.output_tokens'])
      .groupBy(['e.finished_at', 'e.last_at'])
      .having(sql<SqlBool>`min(c.requested_at) >= ${since}::timestamptz`)
      .orderBy(sql`coalesce(e.finished_at, e.last_at)`)
      .orderBy('e.episode_id')
      .limit(rules.at_most),
  );
}

/** Episodes that began after the canary in one of the two versions of a team, in the order in which they ended. */
function episodesOfTeams(
  db: Db,
  { metric, at_most }: CanaryRequest['rules'],
  teams: NonNullable<CanaryRequest['teams']>,
  since: string,
) {
  const is = (side: GateSide) => sql<boolean>`e.team_id = ${teams[side].team_id}`;
  return rowsOf(
    db,
    query
      .selectFrom('facts.episodes as e')
      .leftJoin('facts.tasks as t', 't.task_id', 'e.task_id')
      .select(['e.episode_id', 'e.group_id', 'e.closed', 't.domain as family', liveValue(metric).as('value')])
      .select([
        ...EPISODE_USE,
        sql<string | null>`e.started_at`.as('first_at'),
        is('candidate').as('candidate'),
        is('incumbent').as('incumbent'),
      ])
      .where('e.team_id', '=', anyOf([teams.candidate.team_id, teams.incumbent.team_id]))
      .where(sql<SqlBool>`e.started_at >= ${since}::timestamptz`)
      .where(IS_LIVE)
      .orderBy(sql`coalesce(e.finished_at, e.last_at)`)
      .orderBy('e.episode_id')
      .limit(at_most),
  );
}

async function rewardsOf(db: Db, { rules }: CanaryRequest, rows: readonly TeamEpisode[]) {
  const ids = rules.guardrails.roles === null ? [] : rows.map(({ episode_id }) => episode_id);
  return roleRewards(db, sql<SqlBool>`f.episode_id = ${anyOf(ids)}`);
}

/** The report of the canary of a run; null where none is under way. */
export async function runningCanary(
  db: Db,
  run: string,
  now: Date,
): Promise<{ job_id: string; report: GateReport } | null> {
  const open = await openCanaryOf(db, run);
  return open && { job_id: open.job_id, report: await canaryNow(db, open, now) };
}

const openCanaryOf = async (db: Db, run: string): Promise<OpenCanary | null> =>
  (await openCanaries(db)).find(({ job_id }) => job_id.startsWith(`${run}/`)) ?? null;
