/** Which version each sampling process of a project answers with. */
import type { Db } from '../../../store/db/pool.ts';
import { type NotNull, query, rowsOf, sql } from '../../../store/db/query.ts';
import { hostedModel } from '../../../store/loop/play/weights.ts';
import { saysOf } from '../../../store/loop/release/releases.ts';

export type Serving = {
  readonly process: string;
  readonly policy: string;
  /** Where it listens: a socket path or a URL. */
  readonly address: string | null;
  /** Null where it has none loaded, or does not report it. */
  readonly checkpoint: string | null;
  /** `upstream:MODEL` where a configured server answers for the policy, so that nothing should be loaded. Null before the first release. */
  readonly released: string | null;
  /** Whether it should have loaded what was released by now. */
  readonly late: boolean;
};

/** A process whose last heartbeat is older than this is skipped. */
const HEARTBEAT = '15 seconds';
/** How long after a release, or after its start, a process may still serve what it served. */
const PATIENCE = '30 seconds';

/** The processes whose heartbeat is fresh, the newest first. */
export async function servingNow(db: Pick<Db, 'query'>): Promise<readonly Serving[]> {
  const rows = await rowsOf(
    db,
    query
      .selectFrom('troupe.processes as p')
      .leftJoinLateral(
        (of) =>
          of
            .selectFrom('facts.releases as r')
            .select([sql<string | null>`r.policies ->> p.policy`.as('released'), 'r.released_at'])
            .where(saysOf(sql<string>`p.policy`))
            .orderBy('r.version', 'desc')
            .limit(1)
            .as('r'),
        (on) => on.onTrue(),
      )
      .select([
        'p.process_id as process',
        'p.policy',
        'p.address',
        'r.released',
        sql<
          string | null
        >`(select m ->> 'checkpoint' from jsonb_array_elements(p.models) m where m ->> 'name' = p.policy)`.as(
          'checkpoint',
        ),
        sql<boolean>`coalesce(greatest(r.released_at, p.started_at) < clock_timestamp() - ${PATIENCE}::interval, false)`.as(
          'settled',
        ),
      ])
      .where('p.role', '=', 'infer')
      .where('p.policy', 'is not', null)
      .where('p.heartbeat_at', '>', sql<string>`clock_timestamp() - ${HEARTBEAT}::interval`)
      .orderBy('p.started_at', 'desc')
      .orderBy('p.process_id')
      .$narrowType<{ policy: NotNull }>(),
  );
  return rows.map(({ settled, ...one }) => ({
    ...one,
    late:
      settled && one.released !== null && one.checkpoint !== (hostedModel(one.released) === null ? one.released : null),
  }));
}
