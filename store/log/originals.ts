/** The original records that imports attached to episodes, by which a later import of another part of a run finds the others. */
import type { Originals } from '../../ingest/log/log.ts';
import type { Db } from '../db/pool.ts';
import { anyOf, query, rowsOf, sql } from '../db/query.ts';

export const originalsIn = (db: Db): Originals => ({
  begun: async (episodes) => {
    const found = new Map<string, string[]>();
    if (episodes.length === 0) return found;
    const keys = episodes.map((id) => `e/${id}`);
    const rows = await rowsOf(
      db,
      query
        .selectFrom('troupe.events')
        .select(['key', 'source'])
        .distinct()
        .where('key', '=', anyOf(keys, 'text'))
        .where('name', '=', 'episode.started')
        .where('source', 'like', '/import/%'),
    );
    for (const { key, source } of rows) {
      const episode = key.slice('e/'.length);
      found.set(episode, [...(found.get(episode) ?? []), source]);
    }
    return found;
  },
  records: async (episodes, source) => {
    const found = new Map<string, string[]>();
    if (episodes.length === 0) return found;
    const keys = episodes.map((id) => `e/${id}`);
    const rows = await rowsOf(
      db,
      eventsOf(keys, source)
        .select(['key', sql<string>`data->>'sha256'`.as('sha256')])
        .where('name', '=', 'artifact.attached')
        .where(sql<boolean>`data->>'role' = 'raw-record'`)
        .orderBy('key')
        .orderBy('position'),
    );
    for (const { key, sha256 } of rows) {
      const episode = key.slice('e/'.length);
      found.set(episode, [...(found.get(episode) ?? []), sha256]);
    }
    return found;
  },
  answered: async (responses) => {
    const found = new Map<string, string[]>();
    if (responses.length === 0) return found;
    const rows = await rowsOf(
      db,
      query
        .selectFrom('facts.calls')
        .select(['response_id', 'episode_id'])
        .where('response_id', '=', anyOf(responses, 'text'))
        .orderBy('episode_id'),
    );
    for (const { response_id: response, episode_id: episode } of rows)
      found.set(response!, [...(found.get(response!) ?? []), episode]);
    return found;
  },
  rejected: async (keys, source) => {
    const rows = await rowsOf(
      db,
      eventsOf(keys, source)
        .select(sql<string>`data->'target'->>'id'`.as('id'))
        .where('name', '=', 'record.amended')
        .where(sql<boolean>`data->>'op' = 'reject'`),
    );
    return new Set(rows.map(({ id }) => id));
  },
  held: async (keys, source, ids) => {
    const rows = await rowsOf(db, eventsOf(keys, source).select('id').where('id', '=', anyOf(ids, 'text')));
    return new Set(rows.map(({ id }) => id));
  },
});

const eventsOf = (keys: readonly string[], source: string) =>
  query.selectFrom('troupe.events').where('key', '=', anyOf(keys, 'text')).where('source', '=', source);
