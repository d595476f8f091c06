/**
 * What PostgreSQL's catalogue does not know of our columns, for the types that `npm run schema` writes: what a value is in
 * JavaScript when it was read and what may be written (see `values.ts`), and columns that are narrower than their type.
 */
import type { ColumnType } from 'kysely';

/** A column that the server fills in where an insert leaves it out. */
export type Filled<T> =
  T extends ColumnType<infer Read, infer Insert, infer Update>
    ? ColumnType<Read, Insert | undefined, Update>
    : ColumnType<T, T | undefined, T>;

/** Counts, positions and identities stay below 2^53, so they are read as numbers; others are listed in {@link NARROWER}. */
export type Int8 = ColumnType<number, number | string, number | string>;

/** Read as ISO 8601 in UTC with all microseconds. */
export type Time = ColumnType<string, string | Date, string | Date>;

/** Read as a value, written as JSON text: the driver would write a list as an array of PostgreSQL. */
export type Json = ColumnType<unknown, string, string>;

/** Read as a Buffer. */
export type Bytes = ColumnType<Buffer, Uint8Array, Uint8Array>;

/** Types of columns that the code knows better than the catalogue, by `schema.table.column`. A view's column may be null unless it is here. */
export const NARROWER: Readonly<Record<string, string>> = {
  'facts.calls.seed': 'number | string | null',
  'troupe.job_queue.state': `'waiting' | 'running' | 'finished'`,
  'troupe.job_queue.outcome': `'done' | 'failed' | 'cancelled' | null`,
};
