/**
 * The keys that this process knows, read whole from the database every few seconds. A known key is checked in memory, so
 * that the database may be unreachable for a while; keys that were read too long ago are not used, so that a revoked key ends in time.
 */
import { timingSafeEqual } from 'node:crypto';
import { TroupeError } from '../../errors.ts';
import type { Db } from '../../store/db/pool.ts';
import { digestOf, KEY_PREFIX, lookupOf, type Scope } from '../../store/keys/api-key.ts';
import { type KnownKey, knownKeys } from '../../store/keys/api-keys.ts';
import type { SealedFile } from '../../store/server/sealed.ts';
import { within } from './within.ts';

/** The caller, as identified by a key. */
export type Identity = { readonly key: string; readonly scopes: readonly Scope[] };

export type KeyRing = {
  /** Whether a key is needed at all: there is one, of whatever state. Throws `unreachable` where that is not known. */
  readonly required: () => Promise<boolean>;
  /**
   * Whose key this is; null for one that is unknown, revoked, expired or malformed. All four are refused
   * only after the keys were read again. Throws `unreachable` where they cannot be read.
   */
  readonly identify: (text: string) => Promise<Identity | null>;
  /** Whether a text is a key of ours, or has the form of one: such a text is for nobody else. */
  readonly isOurs: (text: string) => boolean;
};

/** The age from which keys are read again in the background. */
const REFRESH_MS = 5_000;
/** The age from which keys are not used; together with the read it is below the 30 s in which a revoked key must end. */
const BELIEVED_MS = 25_000;
/** How long a request waits for the keys to be read. */
const PATIENCE_MS = 1_000;

const NOBODY: KnownKey = { lookup: '', sha256: Buffer.alloc(32), scopes: [], expires_at: null, revoked_at: null };

type KeySnapshot = { readonly at: number; readonly keys: ReadonlyMap<string, KnownKey> };

export type RingOptions = {
  /** SHA-256 of a key that the environment gives: it may do everything and never expires. */
  readonly firstKey?: Uint8Array | null;
  /** Milliseconds that only grow. */
  readonly clock?: () => number;
  readonly now?: () => Date;
  /**
   * A copy of the keys outside the database. With it a process goes on with the keys that were last read for as long as the database is
   * unreachable, also from the start: a key that was revoked meanwhile ends once the database is back. Without a copy every request is
   * refused until the database answers.
   */
  readonly seal?: SealedFile<readonly KnownKey[]>;
};

export function openKeyRing(
  db: Pick<Db, 'query'>,
  { firstKey = null, clock = () => performance.now(), now = () => new Date(), seal }: RingOptions = {},
): KeyRing {
  let last: KeySnapshot | null = null;
  let failedAt = Number.NEGATIVE_INFINITY;
  let running: Promise<void> | null = null;
  let waiting: Promise<void> | null = null;

  const read = async (): Promise<void> => {
    // The age counts from before the query: its result may miss a later revocation.
    const at = clock();
    const keys = await knownKeys(db as Db);
    last = { at, keys: byLookup(keys) };
    try {
      seal?.write(keys);
    } catch {
      // A full disk must not block requests that the database allows.
    }
  };
  const start = (): Promise<void> => {
    const reading = read().finally(() => {
      running = null;
    });
    running = reading;
    return reading;
  };
  /** A read that begins after this call; at most one runs and one waits, for any number of callers. */
  const readAnew = (): Promise<void> => {
    if (running === null) return start();
    waiting ??= running
      .catch(() => {})
      .then(() => {
        waiting = null;
        return start();
      });
    return waiting;
  };
  const fresh = (): Promise<void> => patiently(readAnew());

  const believed = async (): Promise<KeySnapshot> => {
    const age = last === null ? Number.POSITIVE_INFINITY : clock() - last.at;
    if (age > BELIEVED_MS) {
      if (seal !== undefined && last !== null && clock() - failedAt < REFRESH_MS) return last;
      try {
        await fresh();
      } catch (cause) {
        if (seal !== undefined) {
          failedAt = clock();
          last ??= sealedIn(seal);
          // If nothing was ever read, there may be keys: every request is refused.
          if (last === null) throw away(cause);
          return last;
        }
        // A process that never had a key goes on without keys: reachable from this machine only.
        if (last === null || last.keys.size > 0) throw away(cause);
      }
    } else if (age > REFRESH_MS && running === null) start().catch(() => {});
    return last!;
  };

  const find = (text: string, { keys }: KeySnapshot): Identity | null => {
    const digest = digestOf(text);
    const held = keys.get(lookupOf(text) ?? '') ?? NOBODY;
    const same = timingSafeEqual(digest, held.sha256);
    const live =
      held.revoked_at === null && (held.expires_at === null || Date.parse(held.expires_at) > now().getTime());
    return same && live ? { key: held.lookup, scopes: held.scopes } : null;
  };
  const isFirst = (text: string): boolean => firstKey !== null && timingSafeEqual(digestOf(text), firstKey);

  return {
    required: async () => firstKey !== null || (await believed()).keys.size > 0,
    identify: async (text) => {
      if (isFirst(text)) return { key: 'environment', scopes: ['admin'] };
      const found = find(text, await believed());
      if (found) return found;
      await fresh().catch((cause) => {
        throw away(cause);
      });
      return find(text, last!);
    },
    isOurs: (text) => text.startsWith(KEY_PREFIX) || isFirst(text),
  };
}

const sealedIn = (seal: SealedFile<readonly KnownKey[]>): KeySnapshot | null => {
  const keys = seal.read();
  return keys === null ? null : { at: Number.NEGATIVE_INFINITY, keys: byLookup(keys) };
};

const byLookup = (keys: readonly KnownKey[]): KeySnapshot['keys'] => new Map(keys.map((key) => [key.lookup, key]));

const away = (cause: unknown): TroupeError =>
  new TroupeError('unreachable', 'API keys cannot be checked now, because the database does not answer.', { cause });

async function patiently(work: Promise<void>): Promise<void> {
  if ((await within(work, PATIENCE_MS)) === null)
    throw new TroupeError('unreachable', 'The database did not answer in time.');
}
