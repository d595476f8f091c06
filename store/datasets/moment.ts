/**
 * What the tables that rows are read from hold, as a few numbers: a freeze that was stopped goes on only where they are the same. Positions
 * of the log would not say it, since judging writes between two of them.
 */
import type { Session } from '../db/pool.ts';
import { rowsOf, sql } from '../db/query.ts';
import { tables } from './query.ts';

/** By table the number of its rows, and a sum over which version of which row is there, as text. */
export type Moment = Readonly<Record<string, string>>;

/** Tables that no row is read from, and that freezing and the jobs around it write. */
const NOT_READ = ['checkpoints', 'dataset_rows', 'datasets', 'job_metrics', 'jobs', 'judgings'];

/** Bytes of tables that are looked at for each row that is frozen, and in any case: a million steps and their calls take 1.2 s. */
const BYTES_A_ROW = 8 * 1024;
const BYTES = 8 * 1024 * 1024;

/**
 * A row keeps its place and its transaction until it changes, so their hashes add up to the same only while no row came, went or changed.
 * Null where so few of the rows are frozen that starting again costs less.
 */
export async function momentOf(tx: Session, rows: number): Promise<Moment | null> {
  const named = await rowsOf(
    tx,
    tables
      .selectFrom('pg_catalog.pg_class as c')
      .innerJoin('pg_catalog.pg_namespace as n', 'n.oid', 'c.relnamespace')
      .select([
        sql<string>`format('%I.%I', n.nspname, c.relname)`.as('name'),
        sql<number>`pg_relation_size(c.oid)::float8`.as('bytes'),
      ])
      .where(sql<boolean>`c.relkind = 'r' and (n.nspname = 'facts' and c.relname <> all(${NOT_READ}::name[])
        or n.nspname = 'troupe' and c.relname = 'bodies')`)
      .orderBy('name'),
  );
  const bytes = named.reduce((sum, table) => sum + (table.bytes as number), 0);
  if (bytes > BYTES + rows * BYTES_A_ROW) return null;
  const moment: Record<string, string> = {};
  for (const { name } of named) {
    const state = sql<string>`count(*) || ' ' || coalesce(sum(hashtidextended(ctid, xmin::text::bigint)), 0)`;
    // Its own announcements are no reason to start again.
    const own = name === 'facts.artifacts' ? sql<boolean>`role is distinct from 'dataset'` : sql<boolean>`true`;
    const [found] = await rowsOf(
      tx,
      tables
        .selectFrom(sql.raw(`${name}`).as('r'))
        .select(state.as('state'))
        .where(own),
    );
    moment[name as string] = found!.state;
  }
  return moment;
}

/** The tables that differ. */
export const changedBetween = (before: Moment, now: Moment): readonly string[] =>
  [...new Set([...Object.keys(before), ...Object.keys(now)])].filter((name) => before[name] !== now[name]).sort();
