/** How many releases the weights that answered an episode are behind, and which episodes are too far behind to train on. */
import type { Session } from '../../../store/db/pool.ts';
import { type NotNull, query, rowsOf, type SqlBool, sql } from '../../../store/db/query.ts';
import { playedIn } from '../../../store/loop/play/ids.ts';
import { type Release, releasesOf } from '../../../store/loop/release/releases.ts';

export type Staleness = {
  /** Accepted episodes by the releases that they are behind; `unknown` where no call names weights that were released. */
  readonly behind: Readonly<Record<string, number>>;
  /** Episodes beyond the bound, or unknown, in the order of ids: recorded, and left out of what is trained on. */
  readonly withheld: readonly string[];
};

/**
 * Times that the policy got other weights since these; 0 where it never was released, null where others were and these never. Pure.
 */
export function releasesBehind(releases: readonly Release[], policy: string, checkpoint: string): number | null {
  const weights = releases.flatMap(({ policies }) => policies[policy] ?? []).filter((id, i, all) => id !== all[i - 1]);
  if (weights.length === 0) return 0;
  const place = weights.lastIndexOf(checkpoint);
  return place < 0 ? null : weights.length - 1 - place;
}

/** The weights that answered each episode of a rollout, as far as calls of policies name them. */
export const answeredBy = (db: Pick<Session, 'query'>, rollout: string) =>
  rowsOf(
    db,
    query
      .selectFrom('facts.calls')
      .select(['episode_id', 'policy', 'checkpoint_id'])
      .distinct()
      .where(playedIn('episode_id', rollout))
      .where('policy', 'is not', null)
      // What a replay repeats was answered for another episode.
      .where(sql<SqlBool>`copied is not true`)
      .$narrowType<{ policy: NotNull }>(),
  );

/** Measures these episodes of a rollout now. `bound`: releases behind that are accepted; null: any, and nothing is withheld. */
export async function stalenessOf(
  db: Session,
  rollout: string,
  { episodes, bound }: { readonly episodes: readonly string[]; readonly bound: number | null },
): Promise<Staleness> {
  const releases = await releasesOf(db);
  const most = new Map<string, number | null>();
  for (const { episode_id, policy, checkpoint_id } of await answeredBy(db, rollout)) {
    const behind = checkpoint_id === null ? null : releasesBehind(releases, policy, checkpoint_id);
    const known = most.get(episode_id);
    most.set(episode_id, behind === null || known === null ? null : Math.max(behind, known ?? 0));
  }
  const counted: Record<string, number> = {};
  const withheld: string[] = [];
  for (const episode of episodes) {
    const behind = most.get(episode) ?? null;
    const key = behind === null ? 'unknown' : String(behind);
    counted[key] = (counted[key] ?? 0) + 1;
    if (bound !== null && (behind === null || behind > bound)) withheld.push(episode);
  }
  return { behind: counted, withheld };
}
