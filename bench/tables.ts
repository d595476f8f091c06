/** The tables of a throw-away database as benchmarks need them: filled from a log, emptied, and copied as fast as they can be. */
import { Readable } from 'node:stream';
import { postgresLog } from '../ingest/log/postgres.ts';
import type { Db } from '../store/db/pool.ts';
import { checksum } from '../store/projecting/rebuilding/checksum.ts';
import type { Verdict } from './harness.ts';
import { teamEvents } from './team-events.ts';

/** Events of one append while a log is filled. */
const BATCH = 1000;

/** Appends so many made-up events to the embedded log. */
export async function fillLog(db: Db, count: number): Promise<void> {
  const log = postgresLog(db);
  let batch = [];
  for (const event of teamEvents(count)) {
    if (batch.push(event) < BATCH) continue;
    await log.append(batch);
    batch = [];
  }
  await log.append(batch);
  await db.query('vacuum analyze troupe.stored_events');
}

/** The tables are rebuilt from the beginning of the log. */
export async function emptyFacts(db: Db): Promise<void> {
  const tables = await tablesOf(db);
  if (tables.length > 0) await db.query(`truncate ${tables.join(', ')}`);
  await db.query('delete from troupe.positions; checkpoint');
}

/** The archive as well, as before anything was read of a log outside the database. */
export async function emptyArchive(db: Db): Promise<void> {
  await emptyFacts(db);
  await db.query(
    `truncate troupe.stored_events, troupe.bodies, troupe.blobs; delete from troupe.logs where log <> 0; update troupe.log_partitions set next_position = 0`,
  );
}

/** Tables of facts that have rows. */
async function tablesOf(db: Db): Promise<string[]> {
  const { rows } = await db.query<{ name: string }>(
    `select 'facts.' || quote_ident(relname) as name from pg_class
     where relnamespace = 'facts'::regnamespace and relkind = 'r' order by 1`,
  );
  const filled = [];
  for (const { name } of rows) {
    const { rows: some } = await db.query(`select from ${name} limit 1`);
    if (some.length > 0) filled.push(name);
  }
  return filled;
}

/** A table and all its rows as the server sends and takes them in `COPY … (FORMAT BINARY)`. */
export type Copies = readonly { readonly table: string; readonly bytes: Buffer; readonly rows: number }[];

/** Every table of facts that has rows, and `more`. */
export async function copiesOf(db: Db, more: readonly string[] = []): Promise<Copies> {
  const copies = [];
  for (const table of [...more, ...(await tablesOf(db))]) {
    const { rows } = await db.query<{ n: number }>(`select count(*)::integer as n from ${table}`);
    const chunks: Buffer[] = [];
    for await (const chunk of db.copyOut(`copy (select * from ${table}) to stdout (format binary)`)) chunks.push(chunk);
    copies.push({ table, bytes: Buffer.concat(chunks), rows: rows[0]!.n });
  }
  return copies;
}

/** Larger pieces and smaller ones were slower. */
const PIECE = 256 * 1024;

/** The ceiling: rows that are made already, one COPY a table, one transaction, one flush. */
export const copyBack = (db: Db, copies: Copies): Promise<void> =>
  db.transaction(async (tx) => {
    for (const { table, bytes } of copies)
      await tx.copyIn(`copy ${table} from stdin (format binary)`, Readable.from(pieces(bytes), { objectMode: false }));
  });

function* pieces(bytes: Buffer): Generator<Buffer> {
  for (let at = 0; at < bytes.length; at += PIECE) yield bytes.subarray(at, at + PIECE);
}

/** SHA-256 of each table that has rows. */
export async function sumsOf(db: Db): Promise<Readonly<Record<string, string>>> {
  const { tables } = await checksum(db);
  return Object.fromEntries(
    Object.entries(tables)
      .filter(([, { rows }]) => rows > 0)
      .map(([name, { rows, sha256 }]) => [name, `${rows} ${sha256}`]),
  );
}

/** Whether two sides left the same rows, as their sums say. */
export function sameTables(ours: Readonly<Record<string, string>>, other: Readonly<Record<string, string>>): Verdict {
  const names = new Set([...Object.keys(ours), ...Object.keys(other)]);
  const apart = [...names].filter((name) => ours[name] !== other[name]);
  const rows = Object.values(ours).reduce((sum, text) => sum + Number(text.split(' ')[0]), 0);
  return {
    equal: apart.length === 0 && names.size > 0,
    how:
      apart.length === 0
        ? `${rows.toLocaleString('en')} rows in ${names.size} tables with the same SHA-256`
        : `the tables ${apart.join(', ')} differ`,
  };
}
