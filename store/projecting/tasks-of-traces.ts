/**
 * Tasks derived from traces. Many traces may define one task, each with its own text, and `tasks` shows the last by version; when a trace
 * retracts its definition, the task is what the others define, or is gone with the last of them.
 */

import type { Session } from '../db/pool.ts';
import { anyOf, facts, prepare, query, rowsOfPrepared, sql } from '../db/query.ts';
import { rowsOf } from '../tables/catalogue.ts';
import { effective } from '../tables/effective.ts';
import type { TableRow, Target } from '../tables/projection.ts';
import { tasks as taskTable } from '../tables/tasks.ts';
import { amended, type LoggedEvent } from './amend.ts';
import { RowBuffer } from './row-buffer.ts';
import { remove, upsert } from './write-rows.ts';

const [TASKS] = taskTable.targets as [Target];

const TAKE_TASKS = prepare<{ episodes: readonly string[] }>('told_tasks_before')((value) =>
  facts
    .deleteFrom('told_tasks')
    .where('episode_id', '=', anyOf(value('episodes')))
    .returning(['episode_id', 'task_id', 'told', 'version']),
);

const PUT_TASKS = prepare<{ rows: string }>('told_tasks_now')((value) =>
  facts
    .insertInto('told_tasks')
    .columns(['episode_id', 'task_id', 'told', 'version'])
    .expression((row) =>
      row
        .selectFrom(
          sql<{
            readonly episode_id: string;
            readonly task_id: string;
            readonly told: string;
            readonly version: string;
          }>`json_to_recordset(${value('rows')}::json)`.as<'r'>(
            sql`r (episode_id text, task_id text, told json, version text)`,
          ),
        )
        .select(['r.episode_id', 'r.task_id', 'r.told', 'r.version']),
    )
    .onConflict((known) => known.columns(['episode_id', 'task_id']).doNothing()),
);

const LAST_TASKS = prepare<{ tasks: readonly string[] }>('told_tasks_last')((value) =>
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
    .select(['key', 'source', 'id', 'name', 'type_version', 'time', 'data'])
    .where('key', '=', anyOf(value('keys')))
    .where('name', 'in', ['task.defined', 'record.amended']),
);

/** Stores the tasks that these traces, by key, define now. Returns the tasks whose definition by one of them changed. */
export async function keepTasks(
  tx: Session,
  traces: ReadonlyMap<string, readonly LoggedEvent[]>,
): Promise<readonly string[]> {
  if (traces.size === 0) return [];
  const rows = [...traces].flatMap(([key, events]) =>
    events.flatMap((event) =>
      event.name === 'task.defined' ? [{ episode_id: key.slice(2), ...traceTaskRow(event) }] : [],
    ),
  );
  const episodes = [...traces.keys()].map((key) => key.slice(2));
  const before = (await rowsOfPrepared(tx, TAKE_TASKS, { episodes })) as TraceTask[];
  await rowsOfPrepared(tx, PUT_TASKS, { rows: JSON.stringify(rows) });
  const [then, now] = [new Set(before.map(textOf)), new Set(rows.map(textOf))];
  const changed = [...before.filter((one) => !now.has(textOf(one))), ...rows.filter((one) => !then.has(textOf(one)))];
  return [...new Set(changed.map(({ task_id }) => task_id))];
}

type TraceTask = {
  readonly episode_id: string;
  readonly task_id: string;
  readonly told: TableRow;
  readonly version: string;
};

const textOf = ({ episode_id, task_id, told, version }: TraceTask): string =>
  JSON.stringify([episode_id, task_id, version, told]);

function traceTaskRow(event: LoggedEvent): {
  readonly task_id: string;
  readonly told: TableRow;
  readonly version: string;
} {
  const task = tasksIn(event)[0]!;
  return { task_id: task.task_id as string, told: task, version: task.version as string };
}

const tasksIn = (event: LoggedEvent): readonly TableRow[] =>
  rowsOf(effective(event)).flatMap(([target, rows]) => (target === TASKS ? rows : []));

/** Rebuilds these tasks from everything that defines them. */
export async function mendTasks(tx: Session, tasks: readonly string[]): Promise<void> {
  if (tasks.length === 0) return;
  const latest = await rowsOfPrepared(tx, LAST_TASKS, { tasks });
  const defined = (await rowsOfPrepared(tx, DEFINED, { keys: tasks.map((task) => `t/${task}`) })) as LoggedEvent[];
  const buffer = new RowBuffer();
  buffer.add([[TASKS, latest.map((one) => one.told as TableRow)]]);
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
