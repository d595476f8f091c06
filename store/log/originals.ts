/** The original records that imports attached to episodes, by which a later import of another part of a run finds the others. */
import type { Originals } from '../../ingest/log/log.ts';
import type { Db } from '../db/pool.ts';
import { anyOf, query, rowsOf, sql } from '../db/query.ts';

export const originalsIn =
  (db: Db): Originals =>
  async (episodes, source) => {
    const found = new Map<string, string[]>();
    if (episodes.length === 0) return found;
    const rows = await rowsOf(
      db,
      query
        .selectFrom('troupe.events')
        .select(['key', sql<string>`data->>'sha256'`.as('sha256')])
        .where(
          'key',
          '=',
          anyOf(
            episodes.map((id) => `e/${id}`),
            'text',
          ),
        )
        .where('name', '=', 'artifact.attached')
        .where('source', '=', source)
        .where(sql<boolean>`data->>'role' = 'raw-record'`)
        .orderBy('key')
        .orderBy('position'),
    );
    for (const { key, sha256 } of rows) {
      const episode = key.slice('e/'.length);
      found.set(episode, [...(found.get(episode) ?? []), sha256]);
    }
    return found;
  };
