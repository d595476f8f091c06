/** The API keys of a project in its database: made, listed, revoked. What is kept cannot be turned back into a key. */
import { got, TroupeError } from '../../errors.ts';
import type { Session } from '../db/pool.ts';
import { countOf, query, rowsOf, sql } from '../db/query.ts';
import { newKey, SCOPES, type Scope } from './api-key.ts';

export type KeyRequest = { readonly name: string; readonly scopes: readonly Scope[]; readonly expiresAt: Date | null };

export type ListedKey = {
  readonly lookup: string;
  readonly name: string;
  readonly scopes: readonly string[];
  readonly created_at: string;
  readonly expires_at: string | null;
  readonly revoked_at: string | null;
};

/** A key as it is recognised. */
export type KnownKey = Pick<ListedKey, 'lookup' | 'expires_at' | 'revoked_at'> & {
  readonly scopes: readonly Scope[];
  readonly sha256: Uint8Array;
};

/** Makes a key. Its text is in the answer and nowhere else. */
export async function createKey(
  db: Session,
  { name, scopes, expiresAt }: KeyRequest,
): Promise<{ readonly text: string; readonly lookup: string }> {
  const { text, lookup, digest } = newKey();
  const row = { lookup, name, sha256: digest, scopes: [...scopes], expires_at: expiresAt?.toISOString() ?? null };
  await countOf(db, query.insertInto('troupe.api_keys').values(row));
  return { text, lookup };
}

/** All keys, the newest first, also those that are no longer of use. */
export const listKeys = (db: Session): Promise<readonly ListedKey[]> =>
  rowsOf(
    db,
    query
      .selectFrom('troupe.api_keys')
      .select(['lookup', 'name', 'scopes', 'created_at', 'expires_at', 'revoked_at'])
      .orderBy('created_at', 'desc')
      .orderBy('lookup'),
  );

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
  await countOf(
    db,
    query
      .updateTable('troupe.api_keys')
      .set('revoked_at', sql<string>`clock_timestamp()`)
      .where('lookup', '=', found.lookup)
      .where('revoked_at', 'is', null),
  );
  return found;
}

/** Every key as it is recognised. Scopes of a newer Troupe are left out: what is not known is not allowed. */
export async function knownKeys(db: Pick<Session, 'query'>): Promise<readonly KnownKey[]> {
  const rows = await rowsOf(
    db,
    query.selectFrom('troupe.api_keys').select(['lookup', 'sha256', 'scopes', 'expires_at', 'revoked_at']),
  );
  return rows.map((row) => ({
    ...row,
    scopes: row.scopes.filter((scope): scope is Scope => (SCOPES as readonly string[]).includes(scope)),
  }));
}

/** Revokes every live key of that name. Returns how many. */
export const revokeKeysNamed = (db: Session, name: string): Promise<number> =>
  countOf(
    db,
    query
      .updateTable('troupe.api_keys')
      .set('revoked_at', sql<string>`clock_timestamp()`)
      .where('name', '=', name)
      .where('revoked_at', 'is', null),
  );
