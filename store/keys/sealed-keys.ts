/** The keys of a project as they were last read, for a process that must know them while the database is away. */
import { type SealedFile, sealedFile } from '../server/sealed.ts';
import type { KnownKey } from './api-keys.ts';

/** Holds no key's text: what is written is what the database keeps. */
export function sealedKeys(path: string, secret: () => string | null): SealedFile<readonly KnownKey[]> {
  const file = sealedFile<readonly (Omit<KnownKey, 'sha256'> & { readonly sha256: string })[]>(path, secret);
  return {
    read: () => file.read()?.map((key) => ({ ...key, sha256: Buffer.from(key.sha256, 'hex') })) ?? null,
    write: (keys) =>
      file.write(
        keys
          .map(({ lookup, scopes, expires_at, revoked_at, sha256 }) => ({
            lookup,
            scopes,
            expires_at,
            revoked_at,
            sha256: Buffer.from(sha256).toString('hex'),
          }))
          .sort((a, b) => (a.lookup < b.lookup ? -1 : 1)),
      ),
  };
}
