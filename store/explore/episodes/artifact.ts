/** The bytes of an image or a file in messages. */
import type { Session } from '../../db/pool.ts';
import { firstOf, query, sql } from '../../db/query.ts';

export type Artifact = { readonly media_type: string; readonly bytes: Buffer };

/** The artifact of this SHA-256, with the media type that a message gives it; null where no message shows it. */
export async function readArtifact(db: Session, sha256: string): Promise<Artifact | null> {
  if (!/^[0-9a-f]{64}$/.test(sha256)) return null;
  const found = await firstOf(
    db,
    query
      .selectFrom('troupe.blobs as o')
      .innerJoin('troupe.bodies as b', 'b.blob', 'o.sha256')
      .select(['o.bytes', sql<string>`b.media_type`.as('media_type')])
      .where('o.sha256', '=', Buffer.from(sha256, 'hex'))
      .where('b.media_type', 'is not', null)
      .limit(1),
  );
  return found ?? null;
}
