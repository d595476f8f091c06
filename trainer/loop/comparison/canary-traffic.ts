/** Which weights answer a live episode while a canary runs: read from its job, which the gateway and the sampling processes share. */
import { Type } from 'typebox';
import type { Db } from '../../../store/db/pool.ts';
import { firstOf, query, rowsOf, sql } from '../../../store/db/query.ts';
import { type Weights, WeightsSpec } from '../../../store/loop/play/weights.ts';
import { type TeamVersion, TeamVersionSpec } from '../../../store/loop/team/version.ts';
import { checkedSpec } from '../../../store/queue/jobs/jobs.ts';
import { CANARY, sideOf } from './canary.ts';
import { type GateSide, RulesSpec } from './play.ts';

const share = { minimum: 0, maximum: 1 };
const CanarySpec = Type.Object({
  kind: Type.Literal(CANARY),
  rules: Type.Interface([RulesSpec], {
    metric: Type.Enum(['reward', 'success']),
    range: Type.Tuple([Type.Number(), Type.Number()]),
    share: Type.Number(share),
    at_least: Type.Integer({ minimum: 1 }),
    bake_hours: Type.Number({ minimum: 0 }),
    hours: Type.Number({ exclusiveMinimum: 0 }),
    at_most: Type.Integer({ minimum: 2 }),
    unknown: Type.Number({ minimum: 0 }),
  }),
  /** Seconds from its request after which it ends. */
  budget: Type.Optional(Type.Object({ seconds: Type.Number() })),
  /** What each side answers for the policies that are compared. */
  maps: Type.Object({
    incumbent: Type.Record(Type.String(), Type.String()),
    candidate: Type.Record(Type.String(), Type.String()),
  }),
  /** The candidate's: the processes that serve the policies load them beside what is released. */
  weights: Type.Record(Type.String(), WeightsSpec),
  /** Roles that have to be seen. */
  guarded: Type.Array(Type.String()),
  /** Versions of a team that are compared, instead of policies. */
  teams: Type.Optional(Type.Object({ incumbent: TeamVersionSpec, candidate: TeamVersionSpec })),
});
export type CanaryRequest = ReturnType<typeof checkedCanary>;
const checkedCanary = (spec: unknown) => checkedSpec(CanarySpec, spec);

export type OpenCanary = { readonly job_id: string; readonly requested_at: string; readonly asked: CanaryRequest };

/** Canaries under way: jobs that wait, the oldest first. */
export async function openCanaries(db: Pick<Db, 'query'>): Promise<OpenCanary[]> {
  const rows = await rowsOf(
    db,
    query
      .selectFrom('troupe.job_queue')
      .select(['job_id', 'requested_at', 'spec'])
      .where('kind', '=', CANARY)
      .where('state', '=', 'waiting')
      .orderBy('requested_at')
      .orderBy('job_id'),
  );
  return rows.map(({ job_id, requested_at, spec }) => ({ job_id, requested_at, asked: checkedCanary(spec) }));
}

/** A call as the gateway knows it. `episode` is that of the call alone where it names none. */
export type LiveCall = { readonly policy: string; readonly episode: string; readonly group: string | null };

/** How long the canaries that were read are taken for those of now, in milliseconds. */
const CACHED_MS = 1000;
/** Episodes that are remembered. */
const REMEMBERED = 65_536;

/**
 * The checkpoint of the candidate for calls of its share; null for all others, and where the database cannot say. An episode keeps the side
 * that it was first answered by; one that began before the canary, and any attempt of a rollout, has no side.
 */
export function canaryCheckpoints(db: Pick<Db, 'query'>): (call: LiveCall) => Promise<string | null> {
  const known = new Map<string, GateSide>();
  let cached: { readonly at: number; readonly open: Promise<readonly OpenCanary[]> } | null = null;
  const openNow = (): Promise<readonly OpenCanary[]> => {
    const now = performance.now();
    if (cached === null || now - cached.at > CACHED_MS)
      cached = { at: now, open: openCanaries(db).catch((): readonly OpenCanary[] => []) };
    return cached.open;
  };
  return async ({ policy, episode, group }) => {
    const canary = (await openNow()).find(({ asked }) => asked.weights[policy] !== undefined);
    if (canary === undefined) return null;
    const place = JSON.stringify([canary.job_id, episode]);
    let side = known.get(place);
    if (side === undefined) {
      side = await firstSide(db, canary, episode, group).catch(() => 'incumbent' as const);
      if (known.size >= REMEMBERED) known.clear();
      known.set(place, side);
    }
    return side === 'candidate' ? (canary.asked.weights[policy] as Weights).checkpoint_id : null;
  };
}

async function firstSide(
  db: Pick<Db, 'query'>,
  { job_id, requested_at, asked }: OpenCanary,
  episode: string,
  group: string | null,
): Promise<GateSide> {
  const row = await firstOf(
    db,
    query.selectNoFrom([
      sql<boolean>`exists (select from troupe.job_queue where job_id = ${episode} and kind like 'attempt/%')`.as(
        'played',
      ),
      sql<boolean>`exists (select from facts.calls where episode_id = ${episode}
        and requested_at < ${requested_at}::timestamptz)`.as('begun'),
      sql<string | null>`(select group_id from facts.episodes where episode_id = ${episode})`.as('group'),
    ]),
  );
  if (row === undefined || row.played || row.begun) return 'incumbent';
  return sideOf(job_id, group ?? row.group ?? episode, asked.rules.share);
}

/**
 * The version of a team that a live episode plays in while a canary compares two; null where none does. An episode has the side of its name
 * or its group, as for weights, so asking again gives the same answer.
 */
export async function canaryTeam(
  db: Pick<Db, 'query'>,
  { name, episode, group }: { readonly name: string; readonly episode: string; readonly group: string | null },
): Promise<TeamVersion | null> {
  const canary = (await openCanaries(db)).find(({ asked }) => asked.teams?.candidate.name === name);
  return canary === undefined ? null : canary.asked.teams![await firstSide(db, canary, episode, group)];
}

/** A canary under way that names one of these policies, or this team: two at once would answer each other's episodes. */
export async function canaryOf(
  db: Pick<Db, 'query'>,
  { policies, team }: { readonly policies: readonly string[]; readonly team: string | null },
): Promise<string | null> {
  const others = await openCanaries(db);
  const isSame = ({ weights, teams }: CanaryRequest) =>
    policies.some((policy) => policy in weights) || (team !== null && teams?.candidate.name === team);
  return others.find(({ asked }) => isSame(asked))?.job_id ?? null;
}
