/** The API keys of a project in its database: made, listed, revoked. What is kept cannot be turned back into a key. */
import { got, TroupeError } from '../../errors.ts';
import type { Session } from '../db/pool.ts';
import { newKey, SCOPES, type Scope } from './api-key.ts';

export type KeyAsked = { readonly name: string; readonly scopes: readonly Scope[]; readonly expiresAt: Date | null };

export type ListedKey = {
  readonly lookup: string;
  readonly name: string;
  readonly scopes: readonly Scope[];
  readonly created_at: string;
  readonly expires_at: string | null;
  readonly revoked_at: string | null;
};

/** A key as it is recognised. */
export type KnownKey = Pick<ListedKey, 'lookup' | 'scopes' | 'expires_at' | 'revoked_at'> & {
  readonly sha256: Uint8Array;
};

/** Makes a key. Its text is in the answer and nowhere else. */
export async function createKey(
  db: Session,
  { name, scopes, expiresAt }: KeyAsked,
): Promise<{ readonly text: string; readonly lookup: string }> {
  const { text, lookup, digest } = newKey();
  await db.query(
    'insert into troupe.api_keys (lookup, name, sha256, scopes, expires_at) values ($1, $2, $3, $4, $5::timestamptz)',
    [lookup, name, digest, [...scopes], expiresAt?.toISOString() ?? null],
  );
  return { text, lookup };
}

/** All keys, the newest first, also those that are no longer of use. */
export async function listKeys(db: Session): Promise<readonly ListedKey[]> {
  const { rows } = await db.query<ListedKey>(
    'select lookup, name, scopes, created_at, expires_at, revoked_at from troupe.api_keys order by created_at desc, lookup',
  );
  return rows;
}

/**
 * Revokes the key of that lookup, or the only live one of that name. Revoking again changes nothing.
 * @throws TroupeError `not_found`, `conflict` where several live keys have the name
 */
export async function revokeKey(db: Session, lookupOrName: string): Promise<ListedKey> {
  const keys = await listKeys(db);
  const named = keys.filter(({ name, revoked_at }) => name === lookupOrName && revoked_at === null);
  const found = keys.find(({ lookup }) => lookup === lookupOrName) ?? named[0];
  if (!found) {
    throw new TroupeError('not_found', `There is no live key ${got(lookupOrName)}; \`troupe key list\` shows them.`);
  }
  if (found.lookup !== lookupOrName && named.length > 1) {
    const lookups = named.map(({ lookup }) => lookup).join(', ');
    throw new TroupeError(
      'conflict',
      `${named.length} keys are called ${got(lookupOrName)}; name one of ${lookups} instead.`,
    );
  }
  await db.query('update troupe.api_keys set revoked_at = clock_timestamp() where lookup = $1 and revoked_at is null', [
    found.lookup,
  ]);
  return found;
}

/** Every key as it is recognised. Scopes of a newer Troupe are left out: what is not known is not allowed. */
export async function knownKeys(db: Pick<Session, 'query'>): Promise<readonly KnownKey[]> {
  const { rows } = await db.query<KnownKey>(
    'select lookup, sha256, scopes, expires_at, revoked_at from troupe.api_keys',
  );
  return rows.map((row) => ({ ...row, scopes: row.scopes.filter((scope) => SCOPES.includes(scope)) }));
}
