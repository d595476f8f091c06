/** Releases in their order: what is in force, what it took the place of, and going back to it. */
import type { ErrorCode } from '../../../errors.ts';
import { canonicalJson, hashId } from '../../../ingest/events/json.ts';
import type { EventLog } from '../../../ingest/log/log.ts';
import { appendOwn } from '../../../ingest/log/own-event.ts';
import type { Db, Session } from '../../db/pool.ts';
import { firstOf, pathHere, query, rowsOf, type SqlBool, scalarOf, sql, typed } from '../../db/query.ts';
import { hostedModel, hostedWeights } from '../play/weights.ts';

export type Release = {
  readonly release_id: string;
  /** The whole map: policy to checkpoint id, or to `upstream:MODEL` while a configured server answers for it. */
  readonly policies: Readonly<Record<string, string>>;
  /** Team to the id of its version. */
  readonly teams: Readonly<Record<string, string>>;
  readonly by: string | null;
};

/** Who a release that goes back is by. */
export const ROLLBACK = 'rollback';

/** Rows of `facts.releases` (alias `r`) that say what a policy has: those that name it, and rollbacks, which name all that is left. */
export const saysOf = (policy: ReturnType<typeof sql<string>>) =>
  sql<SqlBool>`(r.policies ->> ${policy} is not null or r.author = ${ROLLBACK})`;

/** The policy that a call (alias `c`) was for, also where a configured server answered in its place. */
export const ASKED_POLICY = sql<string | null>`coalesce(c.policy, c.completed_unmapped ->> 'policy')`;

export type ReleaseInput = {
  readonly checkpoint_id: string;
  /** Where its files are on this machine; null for the model of a configured server. */
  readonly directory: string | null;
};

/** What a policy was given last, where its files are known; null before its first release, and after a rollback to before it. */
export async function givenTo(session: Pick<Session, 'query'>, policy: string): Promise<ReleaseInput | null> {
  const id = sql<string | null>`r.policies ->> ${typed(policy, 'text')}`;
  const given = query
    .selectFrom('facts.releases as r')
    .leftJoin('facts.checkpoints as c', (on) => on.on('c.checkpoint_id', '=', id))
    .select([id.as('checkpoint_id'), pathHere('c.uri').as('directory')])
    .where(saysOf(sql<string>`${typed(policy, 'text')}`))
    .where(sql<SqlBool>`(${id} is null or c.uri is not null or ${id} like ${`${hostedWeights('').checkpoint_id}%`})`)
    .orderBy('r.version', 'desc')
    .limit(1);
  const { checkpoint_id, directory } = (await firstOf(session, given)) ?? { checkpoint_id: null, directory: null };
  return checkpoint_id === null ? null : { checkpoint_id, directory };
}

/** All releases, the first one first, each with the whole map that was in force from then on. */
export async function releasesOf(session: Session): Promise<Release[]> {
  const rows = await rowsOf(
    session,
    query.selectFrom('facts.releases').select(['release_id', 'policies', 'teams', 'author as by']).orderBy('version'),
  );
  const releases: Release[] = [];
  for (const { release_id, policies, teams, by } of rows) {
    // A release may name some policies and teams only; the others stay, but a rollback names all there were.
    const before = by === ROLLBACK ? undefined : releases.at(-1);
    releases.push({
      release_id,
      policies: { ...before?.policies, ...(policies as Release['policies']) },
      teams: { ...before?.teams, ...(teams as Release['teams'] | null) },
      by,
    });
  }
  return releases;
}

/** The releases that a rollback can go back through, the one in force last: those that were rolled back are gone from it, and of several in a row with the same map the last one counts. */
export function inForce(releases: readonly Release[]): Release[] {
  const stack: Release[] = [];
  for (const release of releases) {
    const last = stack.at(-1);
    // A release of what is in force changes nothing: there is nothing to go back from.
    if (last !== undefined && mapOf(last) === mapOf(release)) stack[stack.length - 1] = release;
    else if (release.by !== ROLLBACK) stack.push(release);
    else {
      const place = stack.findLastIndex((one) => mapOf(one) === mapOf(release));
      if (place < 0) stack.push(release);
      else stack.length = place + 1;
    }
  }
  return stack;
}

const mapOf = ({ policies, teams }: Release): string => canonicalJson({ policies, teams });

/** Id of a release of this map at this time. */
export const releaseId = (policies: Release['policies'], at: string): string => hashId(policies, at).slice(0, 16);

/** Runs work that decides on a release and records it while no other process does: what it decided on still holds when it is recorded. */
export const inReleaseTurn = <T>(db: Db, work: () => Promise<T>): Promise<T> =>
  db.transaction(async (tx) => {
    await scalarOf(tx, sql`pg_advisory_xact_lock(hashtext('troupe release'))`);
    return work();
  });

export type NewRelease = {
  readonly release_id: string;
  readonly policies: Release['policies'];
  readonly teams?: Release['teams'];
  readonly reason: string | null;
  readonly by: string;
  /** What a gate measured of it. */
  readonly metrics?: Readonly<Record<string, number>>;
  /** Source of the event, which names the part of Troupe that released. */
  readonly source: string;
  /** ISO 8601. */
  readonly time: string;
};

/** Appends `policy.released`; a release that the log holds under this id stays as it is. `code` is that of a map that cannot be recorded. */
export async function recordRelease(
  log: Pick<EventLog, 'append'>,
  { source, time, teams = {}, metrics = {}, ...data }: NewRelease,
  code?: ErrorCode,
): Promise<void> {
  const named = Object.keys(teams).length === 0 ? {} : { teams: { ...teams } };
  const measured = Object.keys(metrics).length === 0 ? {} : { metrics: { ...metrics } };
  const released = { ...data, policies: { ...data.policies }, ...named, ...measured };
  await appendOwn(log, [{ name: 'policy.released', source, id: data.release_id, time, data: released }], code);
}

/**
 * Appends a release in the turn of `inReleaseTurn`. Policies that it names first, and that a configured server answered until then, are given
 * that server's model by a release before it, to which a rollback can go back.
 * @param hosted the model that the calls of each policy fall back to
 */
export async function recordAfterHosted(
  { db, log }: { readonly db: Session; readonly log: Pick<EventLog, 'append'> },
  hosted: Readonly<Record<string, string>>,
  release: NewRelease,
  code?: ErrorCode,
): Promise<void> {
  const before = (await releasesOf(db)).at(-1);
  const first = Object.keys(release.policies).filter(
    (name) =>
      before?.policies[name] === undefined &&
      hosted[name] !== undefined &&
      hostedModel(release.policies[name]!) === null,
  );
  if (first.length > 0)
    await recordRelease(
      log,
      {
        ...release,
        release_id: `${release.release_id}/hosted`,
        policies: {
          ...before?.policies,
          ...Object.fromEntries(first.map((name) => [name, hostedWeights(hosted[name]!).checkpoint_id])),
        },
        teams: before?.teams ?? {},
        reason: `what answered ${first.join(', ')} until its first release`,
        // Lists are in the order of time.
        time: new Date(Date.parse(release.time) - 1).toISOString(),
      },
      code,
    );
  await recordRelease(log, release, code);
}
