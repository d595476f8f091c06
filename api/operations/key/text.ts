/** API keys as text for people. */
import type { OutputOf, Printer } from '../operation.ts';
import type * as run from './run.ts';

export function created({ key, lookup, expires_at }: OutputOf<typeof run.create>, { say }: Printer): string {
  const end = expires_at === null ? '' : ` and ends on ${expires_at.slice(0, 10)} (--expires)`;
  say(`It is not shown again${end}. Revoke it with: troupe key revoke ${lookup}`);
  return key;
}

export const listed = ({ items }: OutputOf<typeof run.list>, { table }: Printer): string =>
  items.length === 0
    ? 'No keys: this machine alone is answered, and needs none.'
    : table(
        ['key', 'name', 'scopes', 'state', 'created', 'expires'],
        items.map((k) => [k.lookup, k.name, k.scopes.join(','), k.state, k.created_at, k.expires_at]),
      );

export const revoked = ({ lookup, name }: OutputOf<typeof run.revoke>): string => `Revoked: ${lookup} (${name})`;
