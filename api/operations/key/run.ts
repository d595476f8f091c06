/** What operations on API keys do. */
import type { Scope } from '../../../store/keys/api-key.ts';
import { createKey, type ListedKey, listKeys, revokeKey } from '../../../store/keys/api-keys.ts';
import { lifetimeOf } from '../durations.ts';
import { pageOf } from '../lists.ts';
import type { ReadContext } from '../operation.ts';

type NewKey = { readonly name: string; readonly scopes: readonly Scope[]; readonly expires: string };

export async function create({ db, now }: ReadContext, { scopes, expires, ...asked }: NewKey) {
  const name = asked.name.trim();
  const seconds = lifetimeOf(expires);
  const expiresAt = seconds === null ? null : new Date(now().getTime() + seconds * 1000);
  const { text, lookup } = await createKey(db, { name, scopes, expiresAt });
  return { key: text, lookup, name, scopes, expires_at: expiresAt?.toISOString() ?? null };
}

export async function list({ db, now }: ReadContext, page: Parameters<typeof pageOf>[2]) {
  return pageOf(
    (await listKeys(db)).map((key) => ({ ...key, state: stateOf(key, now()) })),
    'lookup',
    page,
  );
}

function stateOf({ revoked_at, expires_at }: ListedKey, now: Date): 'live' | 'expired' | 'revoked' {
  if (revoked_at !== null) return 'revoked';
  return expires_at !== null && Date.parse(expires_at) <= now.getTime() ? 'expired' : 'live';
}

export async function revoke({ db }: ReadContext, { key }: { readonly key: string }) {
  // A whole key is accepted too: its lookup part identifies it.
  const { lookup, name } = await revokeKey(db, /^troupe_([0-9A-Za-z]{11})_/.exec(key)?.[1] ?? key);
  return { lookup, name, state: 'revoked' };
}
