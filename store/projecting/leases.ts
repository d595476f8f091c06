/**
 * Projectors share the partitions of the embedded log by leases: one takes all of them, two take half each. Leases only divide the work.
 * What keeps a batch whole is the lock of its positions, so whoever takes a partition over waits for nothing and asks nobody.
 */
import type { Db, Session } from '../db/pool.ts';

/** After so long without a claim a projector is taken for dead. */
const LEASE_MS = 5000;
/** Leases are looked at no more often. */
const LOOK_MS = 500;

type Lease = { readonly partition: number; readonly owner: string | null };

export type Share = {
  /** The partitions that this projector works on now. */
  readonly claim: (db: Db) => Promise<readonly number[]>;
  /** Gives them to the others. */
  readonly release: (db: Db) => Promise<void>;
};

/** The share of the projector with this id, a UUID. */
export function partitionShare(owner: string): Share {
  let mine: readonly number[] = [];
  let looked = Number.NEGATIVE_INFINITY;
  return {
    claim: async (db) => {
      if (performance.now() - looked < LOOK_MS) return mine;
      mine = (await db.transaction((tx) => claimIn(tx, owner))) ?? mine;
      looked = performance.now();
      return mine;
    },
    release: async (db) => {
      await db.query('update troupe.partition_leases set owner = null, leased_until = null where owner = $1', [owner]);
    },
  };
}

/** Null where another projector claims at this moment. */
async function claimIn(tx: Session, owner: string): Promise<readonly number[] | null> {
  const { rows: lock } = await tx.query<{ taken: boolean }>(
    `select pg_try_advisory_xact_lock(hashtext('troupe leases')) as taken`,
  );
  if (!lock[0]!.taken) return null;
  const { rows } = await tx.query<Lease>(
    'select partition, case when leased_until > clock_timestamp() then owner end as owner from troupe.partition_leases order by partition',
    [],
    { name: 'leases' },
  );
  const mine = fairShare(rows, owner);
  await tx.query(
    `update troupe.partition_leases set owner = $1, leased_until = clock_timestamp() + interval '${LEASE_MS} milliseconds'
     where partition = any($2::smallint[])`,
    [owner, mine],
    { name: 'leases_take' },
  );
  return mine;
}

/** What this owner has and may have: first what is free, then what those have who have most, until nobody has two more than another. */
export function fairShare(leases: readonly Lease[], owner: string): number[] {
  const held = new Map<string | null, number[]>([[owner, []]]);
  for (const lease of leases) held.set(lease.owner, [...(held.get(lease.owner) ?? []), lease.partition]);
  const free = held.get(null) ?? [];
  held.delete(null);
  const most = Math.ceil(leases.length / held.size);
  const least = Math.floor(leases.length / held.size);
  const mine = held.get(owner)!;
  while (mine.length < most && free.length > 0) mine.push(free.pop()!);
  while (mine.length < least) {
    const richest = [...held.values()].reduce((a, b) => (b.length > a.length ? b : a));
    if (richest === mine) break;
    mine.push(richest.pop()!);
  }
  return mine.sort((a, b) => a - b);
}
