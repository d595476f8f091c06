/**
 * Tasks that traces tell. Many traces tell one task, each in its own words, and `tasks` shows the last by version; when a trace takes
 * its words back, the task is what the others say of it, or is gone with the last of them.
 */

import type { Session } from '../db/pool.ts';
import { rowsOf } from '../projections/catalogue.ts';
import { TASKS } from '../projections/episodes.ts';
import { type Effective, type Row, versionOf } from '../projections/projection.ts';
import type { Stored } from './amend.ts';
import { RowBuffer } from './row-buffer.ts';
import { remove, upsert } from './write-rows.ts';

/** Keeps what these traces, by key, tell of their tasks now, and mends the tasks of which one of them told something else before. */
export async function keepTasks(tx: Session, traces: ReadonlyMap<string, readonly Stored[]>): Promise<void> {
  if (traces.size === 0) return;
  const rows = [...traces].flatMap(([key, events]) =>
    events.flatMap((event) => (event.name === 'task.defined' ? [{ episode_id: key.slice(2), ...toldRow(event) }] : [])),
  );
  const { rows: before } = await tx.query<{ episode_id: string; task_id: string; version: string }>(
    'delete from told_tasks where episode_id = any($1::text[]) returning episode_id, task_id, version',
    [[...traces.keys()].map((key) => key.slice(2))],
    { name: 'told_tasks_before' },
  );
  await tx.query(
    `insert into told_tasks (episode_id, task_id, told, version)
     select episode_id, task_id, told, version from json_to_recordset($1::json) as r (episode_id text, task_id text, told json, version text)
     on conflict (episode_id, task_id) do nothing`,
    [JSON.stringify(rows)],
    { name: 'told_tasks_now' },
  );
  const same = new Set(rows.map(nameOf));
  const lost = [...new Set(before.filter((one) => !same.has(nameOf(one))).map(({ task_id }) => task_id))];
  if (lost.length > 0) await mend(tx, lost);
}

const nameOf = (one: { readonly episode_id: string; readonly task_id: string; readonly version: string }): string =>
  `${one.episode_id}\u0000${one.task_id}\u0000${one.version}`;

function toldRow(event: Stored): { readonly task_id: string; readonly told: Row; readonly version: string } {
  const told = tasksIn(event)[0]!;
  return { task_id: told.task_id as string, told, version: told.version as string };
}

const tasksIn = (event: Stored): readonly Row[] =>
  rowsOf({ ...event, version: versionOf(event) } as Effective).flatMap(([target, rows]) =>
    target === TASKS ? rows : [],
  );

/** Makes these tasks anew from all who tell them. */
async function mend(tx: Session, tasks: readonly string[]): Promise<void> {
  const { rows: told } = await tx.query<{ told: Row }>(
    'select distinct on (task_id) told from told_tasks where task_id = any($1::text[]) order by task_id, version desc',
    [tasks],
    { name: 'told_tasks_last' },
  );
  const { rows: defined } = await tx.query<Stored>(
    `select key, source, id, name, time, data from troupe.events where key = any($1::text[]) and name = 'task.defined'`,
    [tasks.map((task) => `t/${task}`)],
    { name: 'tasks_defined' },
  );
  const buffer = new RowBuffer();
  buffer.add([[TASKS, told.map((one) => one.told)]]);
  for (const event of defined) buffer.add([[TASKS, tasksIn(event)]]);
  await remove(
    tx,
    TASKS,
    tasks.map((task_id) => ({ task_id })),
  );
  await upsert(tx, TASKS, buffer.rowsFor(TASKS));
}
