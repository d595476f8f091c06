/**
 * A SHA-256 for each table of facts and judgements: rows as text, sorted, without arrival columns. Equal after a rebuild, after
 * any order of arrival, in any home, time zone and locale; one changed byte in any covered column makes it differ.
 */
import { createHash } from 'node:crypto';
import type { Db, Session } from '../../db/pool.ts';
import { namedColumns } from '../../tables/catalogue.ts';
import { shownJson, shownText } from '../../tables/long-texts.ts';

export type Checksum = {
  readonly tables: Readonly<Record<string, { readonly rows: number; readonly sha256: string }>>;
};

/** Columns of arrival, not of content. */
const ARRIVAL = ['recorded_at', 'log', 'partition', 'position', 'revision', 'attempts'];

/** What calls read: each message of each context that the tables name, once. */
const CONTEXTS = `(
  with recursive reached as (
    select distinct 'e/' || episode_id as key, context as hash from facts.calls
    union
    select b.key, b.previous from reached r join troupe.bodies b on b.key || b.hash::text = r.key || r.hash::text
  )
  select b.key, b.hash, b.previous, troupe.with_texts(b.key, b.body) as message
  from reached r join troupe.bodies b on b.key || b.hash::text = r.key || r.hash::text)`;

/** Each row of each dataset, however many stand in one row of the table. */
const DATASET_ROWS = `(
  select r.dataset_id, r.split, (r.row + c.place - 1)::integer as row, r.episode_id, r.call_id, c.candidate
  from facts.dataset_rows r cross join lateral unnest(r.candidates) with ordinality as c (candidate, place))`;

/** Reads all tables in one snapshot, so that it can be taken while events come in. */
export const checksum = (db: Db): Promise<Checksum> =>
  db.transaction(checksumIn, { isolation: 'repeatable read', readOnly: true });

async function checksumIn(db: Session): Promise<Checksum> {
  const { rows: tables } = await db.query<{ schema: string; name: string; columns: string[] }>(
    `select n.nspname as schema, c.relname as name, array_agg(quote_ident(a.attname) order by a.attname) as columns
     from pg_class c
     join pg_namespace n on n.oid = c.relnamespace
     join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attname <> all($1::text[])
     where n.nspname = 'facts' and c.relkind = 'r' or n.nspname = 'troupe' and c.relname = 'events'
     group by 1, 2 order by 1, 2`,
    // The digest of an event covers the version of its type, and sums of before stay as they were.
    [[...ARRIVAL, 'type_version']],
  );
  const sums: Record<string, { rows: number; sha256: string }> = {};
  for (const { schema, name, columns } of tables)
    sums[name] =
      name === 'dataset_rows'
        ? await sumOf(db, DATASET_ROWS, ['call_id', 'candidate', 'dataset_id', 'episode_id', '"row"', 'split'])
        : await sumOf(db, `${schema}.${name}`, columns, namedColumns(name));
  sums.contexts = await sumOf(db, CONTEXTS, ['key', 'hash', 'previous', 'message']);
  return { tables: sums };
}

async function sumOf(
  db: Session,
  table: string,
  columns: readonly string[],
  named: Readonly<Record<string, string>> = {},
): Promise<{ rows: number; sha256: string }> {
  const hash = createHash('sha256').update(columns.join('\t')).update('\n');
  let rows = 0;
  const value = (column: string) => {
    const kind = named[column];
    if (kind === undefined) return `t.${column}`;
    return kind === 'text' ? shownText('t', column) : shownJson('t', column);
  };
  const row = `row(${columns.map(value).join(', ')})::text collate "C"`;
  for await (const chunk of db.copyOut(`copy (select ${row} from ${table} t order by 1) to stdout`)) {
    hash.update(chunk);
    // COPY escapes line breaks inside values, so a line break ends a row.
    for (const byte of chunk) if (byte === 10) rows++;
  }
  return { rows, sha256: hash.digest('hex') };
}
