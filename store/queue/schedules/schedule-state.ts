/** A schedule as it stands in its row of the queue: what it is, and how far it came. */
import type { Positions } from '../../projecting/read-batch.ts';
import type { ScheduleDefinition } from './definition-schema.ts';
import type { Decision } from './due.ts';

export type ScheduleState = {
  /** When it was added, in UTC. */
  readonly since: string;
  /** Every tick up to this instant is decided. */
  readonly last: string;
  readonly paused: { readonly by: string; readonly reason: string; readonly at: string } | null;
  /** When it was resumed last: jobs before do not pause it again. */
  readonly resumed?: string;
  /** Of a schedule with a condition: where the log ended when its last job started. */
  readonly started?: Positions;
  /** Of a schedule with a condition: what it found last; `new_episodes` is null for one on a metric. */
  readonly checked?: { readonly at: string; readonly new_episodes: number | null; readonly detail?: string };
  /** Ticks that are to be run afterwards, the oldest first. */
  readonly backfill?: readonly string[];
  /** What was decided at that time and may not yet be in the log and in the queue. */
  readonly pending: { readonly at: string; readonly decisions: readonly Decision[] } | null;
};

export type Schedule = {
  readonly name: string;
  readonly definition: ScheduleDefinition;
  readonly state: ScheduleState;
  readonly token: number;
};
