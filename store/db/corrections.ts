/**
 * What PostgreSQL's catalogue does not know of our columns, for the types that `npm run schema` writes: what a value is in
 * JavaScript when it was read and what may be written (see `values.ts`), and columns that are narrower than their type.
 */

import type { ColumnType } from 'kysely';

/** A column that the server fills in where an insert leaves it out. */
export type WithDefault<T> =
  T extends ColumnType<infer Read, infer Insert, infer Update>
    ? ColumnType<Read, Insert | undefined, Update>
    : ColumnType<T, T | undefined, T>;

/** Counts, positions and identities stay below 2^53, so they are read as numbers; others are listed in {@link NARROWER}. */
export type Int8 = ColumnType<number, number | string, number | string>;

/** Read as ISO 8601 in UTC with all microseconds. */
export type Time = ColumnType<string, string | Date, string | Date>;

/** Read as a value, written as JSON text: the driver would write a list as an array of PostgreSQL. */
export type Json<Value = unknown> = ColumnType<Value, string, string>;

/** A method as a recorded judging names it. */
export type JudgedMethod = {
  readonly name: string;
  readonly version: number;
  readonly params: Record<string, unknown>;
  readonly reads?: string | null;
};

/** Read as a Buffer. */
export type Bytes = ColumnType<Buffer, Uint8Array, Uint8Array>;

/** Types of columns that the code knows better than the catalogue, by `schema.table.column`. A view's column may be null unless it is here. */
export const NARROWER: Readonly<Record<string, string>> = {
  'troupe.archives.state': `'writing' | 'kept' | 'restored' | 'replaced'`,
  'troupe.job_queue.state': `'waiting' | 'running' | 'finished'`,
  'troupe.events.key': 'string',
  'troupe.events.source': 'string',
  'troupe.events.id': 'string',
  'troupe.events.name': 'string',
  'troupe.events.type_version': 'number',
  'troupe.events.data': 'Json',
  'troupe.events.digest': 'string',
  'troupe.events.log': 'number',
  'troupe.events.partition': 'number',
  'troupe.events.position': 'Int8',
  'troupe.events.recorded_at': 'Time',
  'troupe.job_queue.outcome': `'done' | 'failed' | 'cancelled' | null`,
};

/** The views that our own code reads: the others, which people and their programs ask, have no types here. */
export const READ_VIEWS: readonly string[] = [
  ...['traj.agents', 'traj.blames', 'traj.checkpoints', 'traj.credits', 'traj.dataset_rows', 'traj.datasets'],
  ...['traj.dead_letters', 'traj.decisions', 'traj.episodes', 'traj.executions', 'traj.feedback', 'traj.jobs'],
  ...['traj.lineage', 'traj.messages', 'traj.pruned', 'traj.releases', 'traj.rewards', 'traj.scores', 'traj.steps'],
  ...['traj.tasks', 'traj.tool_calls', 'traj.verdicts', 'report.corrections', 'report.local_rewards'],
  'report.outcomes',
];
