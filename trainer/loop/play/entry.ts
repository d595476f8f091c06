/** Where a team finds the API, and a key for it: made for one rollout, with the scope ingest, and revoked at its end. */
import { TroupeError } from '../../../errors.ts';
import type { Db } from '../../../store/db/pool.ts';
import { firstOf, query, sql } from '../../../store/db/query.ts';
import { createKey, revokeKeysNamed } from '../../../store/keys/api-keys.ts';

/** Where the team finds Troupe, and the key that it needs there; null where it needs none. */
export type PlayServer = { readonly url: string; readonly key: string | null };

const PROBE_MS = 10_000;
/** Keys end by themselves some time after the rollout. */
const SPARE_S = 3600;

const keyName = (rollout: string): string => `rollout ${rollout}`;

/** @throws TroupeError `unreachable` where nothing answers as an API of Troupe */
export async function openEntry(
  db: Db,
  rollout: string,
  { url, lastsS, now }: { readonly url: string | null; readonly lastsS: number; readonly now: () => Date },
): Promise<PlayServer> {
  const at = url ?? (await servedAt(db));
  if (at === null)
    throw new TroupeError(
      'unreachable',
      'No process `run serve` is running, so the team would find no gateway. Start `troupe up`, or name the address in the field url of the runner.',
    );
  if (!(await needsKey(at))) return { url: at, key: null };
  // The keys of a worker that died before.
  await revokeKeysNamed(db, keyName(rollout));
  const expiresAt = new Date(now().getTime() + (lastsS + SPARE_S) * 1000);
  const { text } = await createKey(db, { name: keyName(rollout), scopes: ['ingest'], expiresAt });
  return { url: at, key: text };
}

/** Ends the key of a rollout, if it has one. */
export const closeEntry = (db: Db, rollout: string): Promise<number> => revokeKeysNamed(db, keyName(rollout));

/** The address of a `run serve` of this project with a heartbeat in the last seconds; null where there is none. */
async function servedAt(db: Db): Promise<string | null> {
  const row = await firstOf(
    db,
    query
      .selectFrom('troupe.processes')
      .select('address')
      .where('role', '=', 'serve')
      .where('address', 'is not', null)
      .where('heartbeat_at', '>', sql<string>`clock_timestamp() - interval '10 seconds'`)
      .orderBy('started_at', 'desc')
      .limit(1),
  );
  // What listens everywhere is asked here.
  return row?.address?.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:') ?? null;
}

async function needsKey(url: string): Promise<boolean> {
  let status: number;
  try {
    const answer = await fetch(`${url}/v1/models`, { signal: AbortSignal.timeout(PROBE_MS), redirect: 'error' });
    await answer.body?.cancel();
    ({ status } = answer);
  } catch (cause) {
    throw new TroupeError('unreachable', `Nothing answers at ${url}, where the team would find the gateway.`, {
      cause,
    });
  }
  if (status === 200) return false;
  if (status === 401) return true;
  throw new TroupeError('unreachable', `${url}/v1/models answered ${status}; it should be the API of Troupe.`);
}
