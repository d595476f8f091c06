/** Archived events in the log again: for good by a restore, within a transaction by a rebuild. */
import type { EventName } from '../../ingest/events/events.ts';
import { keepBodies } from '../../ingest/log/postgres.ts';
import { splitData } from '../../ingest/log/split.ts';
import type { Session } from '../db/pool.ts';
import { applyAt } from '../projecting/apply.ts';
import type { ArchivedEvent } from './files.ts';

/** Events in one statement, and applied at once. */
const AT_ONCE = 1000;

/**
 * Puts events into the log at the places that they had, and applies them, those of keys in `shown` excepted. The transaction's search_path
 * names the schema.
 */
export async function putBack(
  tx: Session,
  events: readonly ArchivedEvent[],
  shown: ReadonlySet<string> = new Set(),
): Promise<void> {
  for (let from = 0; from < events.length; from += AT_ONCE) {
    const some = events.slice(from, from + AT_ONCE);
    const splits = some.map(({ name, key, data }) => splitData(name as EventName, key, JSON.parse(data), data));
    await keepBodies(
      tx,
      splits.flatMap(({ bodies }) => bodies),
    );
    const rows = some.map((event, i) => ({ ...event, data: splits[i]!.json }));
    const column = <K extends keyof ArchivedEvent>(name: K): unknown[] => rows.map((row) => row[name]);
    const digits = (name: 'position' | 'time' | 'recorded_at') => rows.map((row) => row[name]?.toString() ?? null);
    await tx.query(
      `insert into troupe.stored_events (log, partition, position, key, source, id, name, type_version, data, digest, time, recorded_at)
       select l, p, n, k, s, i, t, v, d::json, case when h ~ '^[0-9a-f]{64}$' then decode(h, 'hex') else convert_to(h, 'UTF8') end, ${fromMicroseconds('at')}, ${fromMicroseconds('came')}
       from unnest($1::smallint[], $2::smallint[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::bigint[], $11::bigint[], $12::smallint[])
         as r (l, p, n, k, s, i, t, d, h, at, came, v)`,
      [
        column('log'),
        column('partition'),
        digits('position'),
        ...(['key', 'source', 'id', 'name', 'data', 'digest'] as const).map(column),
        digits('time'),
        digits('recorded_at'),
        column('type_version'),
      ],
      { name: 'restore_events' },
    );
    const hidden = some.filter(({ key }) => !shown.has(key));
    const places = hidden.map(({ log, partition, position }) => [log, partition, position.toString()] as const);
    await applyAt(
      tx,
      ([0, 1, 2] as const).map((i) => places.map((place) => place[i])),
    );
  }
}

/** In two steps, since the product of an interval is computed in floating point. */
const fromMicroseconds = (us: string): string =>
  `timestamptz 'epoch' + (${us} / 1000000) * interval '1 second' + (${us} % 1000000) * interval '1 microsecond'`;
