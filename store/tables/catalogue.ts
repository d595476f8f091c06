/** Every table of schema facts, and what follows from their declarations. */
import { groupBy } from '../../ingest/events/group-by.ts';
import { agents } from './agents.ts';
import { artifacts } from './artifacts.ts';
import { calls } from './calls.ts';
import { checkpoints } from './checkpoints.ts';
import { datasetRows, datasets } from './datasets.ts';
import { decisions } from './decisions.ts';
import { episodes } from './episodes.ts';
import { feedback } from './feedback.ts';
import { jobMetrics, jobs } from './jobs.ts';
import { blames, credits, judgedMethods, judgings, rewards, scores, verdicts } from './judgements.ts';
import { BODIES } from './long-texts.ts';
import { messages } from './messages.ts';
import { observations } from './observations.ts';
import type { Effective, Rows, Target } from './projection.ts';
import { releases } from './releases.ts';
import { steps } from './steps.ts';
import type { RowOf, Table } from './table.ts';
import { tasks, toldTasks } from './tasks.ts';
import { teams } from './teams.ts';
import { toolCalls } from './tool-calls.ts';

/** In the order they are written: parents before what joins them. */
export const TABLES = [
  ...[tasks, toldTasks, teams, episodes, agents, calls, steps, messages, toolCalls, decisions, observations],
  ...[feedback, artifacts, jobs, jobMetrics, checkpoints, releases, datasets, datasetRows],
  ...[judgings, judgedMethods, verdicts, scores, rewards, credits, blames],
] as const satisfies readonly Table[];

/** The rows of each table by its name. */
export type FactTables = { [One in (typeof TABLES)[number] as One['name']]: RowOf<One> };

/**
 * What builds the rows of an event. Without rows are states of members (read from the log itself), spans (mapped with the others of
 * their trace by store/projecting/traces.ts), amendments (they change what is built of other events) and schedules.
 */
const BUILDERS = groupBy(
  TABLES.flatMap(({ builders }) => builders),
  ([name]) => name,
);

/** The rows that one effective event stands for. */
export function rowsOf(event: Effective): Rows {
  const rows: Rows[number][] = [];
  for (const [, build] of BUILDERS.get(event.name) ?? []) build(event, rows);
  return rows;
}

/** Every group of columns, in the order they are written. */
export const TARGETS: readonly Target[] = [BODIES, ...TABLES.flatMap(({ targets }) => targets)];

/** The columns of a table that hold names of long texts, and whether as text or inside of JSON. */
export const namedColumns = (name: string): Readonly<Record<string, string>> =>
  Object.fromEntries(
    (TABLES.find((one) => one.name === name)?.groups ?? []).flatMap(({ columns }) =>
      Object.entries(columns).flatMap(([column, spec]) =>
        typeof spec === 'object' && spec[2] && spec[0] !== 'uuid' ? [[column, spec[0]]] : [],
      ),
    ),
  );
