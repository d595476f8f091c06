/**
 * Tasks that traces tell. Many traces tell one task, each in its own words, and `tasks` shows the last by version; when a trace takes
 * its words back, the task is what the others say of it, or is gone with the last of them.
 */

import type { Session } from '../db/pool.ts';
import { anyOf, facts, prepare, query, rowsOfPrepared, sql } from '../db/query.ts';
import { rowsOf } from '../projections/catalogue.ts';
import { TASKS } from '../projections/episodes.ts';
import { type Effective, type Row, versionOf } from '../projections/projection.ts';
import { amended, type Stored } from './amend.ts';
import { RowBuffer } from './row-buffer.ts';
import { remove, upsert } from './write-rows.ts';

const TAKE_TOLD = prepare<{ episodes: readonly string[] }>('told_tasks_before')((value) =>
  facts
    .deleteFrom('told_tasks')
    .where('episode_id', '=', anyOf(value('episodes')))
    .returning(['episode_id', 'task_id', 'told', 'version']),
);

type ToldRow = {
  readonly episode_id: string;
  readonly task_id: string;
  readonly told: string;
  readonly version: string;
};

const PUT_TOLD = prepare<{ rows: string }>('told_tasks_now')((value) =>
  facts
    .insertInto('told_tasks')
    .columns(['episode_id', 'task_id', 'told', 'version'])
    .expression((row) =>
      row
        .selectFrom(
          sql<ToldRow>`json_to_recordset(${value('rows')}::json)`.as<'r'>(
            sql`r (episode_id text, task_id text, told json, version text)`,
          ),
        )
        .select(['r.episode_id', 'r.task_id', 'r.told', 'r.version']),
    )
    .onConflict((known) => known.columns(['episode_id', 'task_id']).doNothing()),
);

const LAST_TOLD = prepare<{ tasks: readonly string[] }>('told_tasks_last')((value) =>
  facts
    .selectFrom('told_tasks')
    .distinctOn('task_id')
    .select('told')
    .where('task_id', '=', anyOf(value('tasks')))
    .orderBy('task_id')
    .orderBy('version', 'desc'),
);

const DEFINED = prepare<{ keys: readonly string[] }>('tasks_defined')((value) =>
  query
    .selectFrom('troupe.events')
    .select(['key', 'source', 'id', 'name', 'time', 'data'])
    .where('key', '=', anyOf(value('keys')))
    .where('name', 'in', ['task.defined', 'record.amended']),
);

/** Keeps what these traces, by key, tell of their tasks now. Returns the tasks of which one of them told something else before. */
export async function keepTasks(
  tx: Session,
  traces: ReadonlyMap<string, readonly Stored[]>,
): Promise<readonly string[]> {
  if (traces.size === 0) return [];
  const rows = [...traces].flatMap(([key, events]) =>
    events.flatMap((event) => (event.name === 'task.defined' ? [{ episode_id: key.slice(2), ...toldRow(event) }] : [])),
  );
  const episodes = [...traces.keys()].map((key) => key.slice(2));
  const before = (await rowsOfPrepared(tx, TAKE_TOLD, { episodes })) as Telling[];
  await rowsOfPrepared(tx, PUT_TOLD, { rows: JSON.stringify(rows) });
  const [then, now] = [new Set(before.map(textOf)), new Set(rows.map(textOf))];
  const changed = [...before.filter((one) => !now.has(textOf(one))), ...rows.filter((one) => !then.has(textOf(one)))];
  return [...new Set(changed.map(({ task_id }) => task_id))];
}

type Telling = { readonly episode_id: string; readonly task_id: string; readonly told: Row; readonly version: string };

const textOf = ({ episode_id, task_id, told, version }: Telling): string =>
  JSON.stringify([episode_id, task_id, version, told]);

function toldRow(event: Stored): { readonly task_id: string; readonly told: Row; readonly version: string } {
  const told = tasksIn(event)[0]!;
  return { task_id: told.task_id as string, told, version: told.version as string };
}

const tasksIn = (event: Stored): readonly Row[] =>
  rowsOf({ ...event, version: versionOf(event) } as Effective).flatMap(([target, rows]) =>
    target === TASKS ? rows : [],
  );

/** Makes these tasks anew from all who tell them. */
export async function mendTasks(tx: Session, tasks: readonly string[]): Promise<void> {
  if (tasks.length === 0) return;
  const told = await rowsOfPrepared(tx, LAST_TOLD, { tasks });
  const defined = (await rowsOfPrepared(tx, DEFINED, { keys: tasks.map((task) => `t/${task}`) })) as Stored[];
  const buffer = new RowBuffer();
  buffer.add([[TASKS, told.map((one) => one.told as Row)]]);
  const amendments = defined.filter(({ name }) => name === 'record.amended');
  for (const event of defined) {
    const now = event.name === 'task.defined' ? amended(event, amendments) : null;
    if (now) buffer.add([[TASKS, tasksIn(now)]]);
  }
  await remove(
    tx,
    TASKS,
    tasks.map((task_id) => ({ task_id })),
  );
  await upsert(tx, TASKS, buffer.rowsFor(TASKS));
}
