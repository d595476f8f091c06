/** Which attempt comes next, and what a rollout came to: both follow from its attempts alone. */

import { groupBy } from '../../../ingest/events/group-by.ts';
import { type AttemptError, type AttemptRow, type AttemptSpec, isLostByUs } from '../../../store/loop/play/attempts.ts';
import { episodeId } from '../../../store/loop/play/ids.ts';
import { groupsOf, type RolloutSpec } from '../../../store/loop/play/rollout.ts';

type PlaySpec = Pick<RolloutSpec, 'tasks' | 'places' | 'samples'>;
type NewAttempt = { readonly id: string; readonly spec: AttemptSpec };

const slot = ({ task, sample }: Pick<AttemptSpec, 'task' | 'sample'>): string => `${task}/${sample}`;

const bySlot = (rows: readonly AttemptRow[]): Map<string, AttemptRow[]> => groupBy(rows, ({ spec }) => slot(spec));

/**
 * The attempts to add at the beginning, or after a process ended: one for each sample that needs one. Tasks come one after another, so that
 * groups fill early.
 */
export function nextAttempts(
  rollout: string,
  spec: PlaySpec,
  rows: readonly AttemptRow[],
  retries: number,
): NewAttempt[] {
  const slots = bySlot(rows);
  return groupsOf(rollout, spec).flatMap(({ group_id }, task) =>
    Array.from({ length: spec.samples }, (_, sample) => sample).flatMap(
      (sample) =>
        nextAttempt({ rollout, task, group_id, sample }, slots.get(slot({ task, sample })) ?? [], retries) ?? [],
    ),
  );
}

/** Failures after which a sample is not tried again: time or budget is over, or the team would do the same other thing once more. */
const FINAL: readonly (AttemptError['code'] | undefined)[] = ['deadline', 'budget', 'diverged'];

/**
 * The attempt that follows these at one sample; null where one is under way or done, and where it failed more than `retries` times. What the
 * end of our own process broke off does not count as a failure.
 */
export function nextAttempt(
  { rollout, task, group_id, sample }: Omit<AttemptSpec, 'attempt'> & { readonly group_id: string },
  tried: readonly AttemptRow[],
  retries: number,
): NewAttempt | null {
  if (tried.some(({ state, outcome }) => state !== 'finished' || outcome === 'done')) return null;
  if (tried.some(({ error }) => FINAL.includes(error?.code))) return null;
  if (tried.filter(({ error }) => !isLostByUs(error)).length > retries) return null;
  const attempt = tried.length;
  return { id: episodeId(group_id, sample, attempt), spec: { rollout, task, sample, attempt } };
}

/** Why attempts end with their rollout. */
export const deadlineOver = ({ deadline_s }: Pick<RolloutSpec, 'deadline_s'>): AttemptError => ({
  code: 'deadline',
  message: `The rollout had ${deadline_s} s and they were over.`,
});

/** A group that is not complete: how many of its samples are done, and why the others are not. */
type PartialGroup = {
  readonly group_id: string;
  readonly task_id: string;
  readonly done: number;
  readonly of: number;
  /** What the last attempt at each missing sample failed at, with how often. */
  readonly why: readonly { readonly code: AttemptError['code']; readonly message: string; readonly samples: number }[];
};

export type Tally = {
  /** Episodes of complete groups: what may be trained on. */
  readonly episodes: readonly string[];
  readonly groups: { readonly complete: number; readonly partial: number };
  readonly partial: readonly PartialGroup[];
  readonly attempts: {
    readonly done: number;
    readonly failed: number;
    /** Of the failed ones, those that reported after they were lost. */
    readonly late: number;
    /** Attempts after the first at a sample. */
    readonly retried: number;
  };
};

/** What the rows add up to. */
export function tally(rollout: string, spec: PlaySpec, rows: readonly AttemptRow[]): Tally {
  const { samples } = spec;
  const slots = bySlot(rows);
  const groups = groupsOf(rollout, spec);
  const episodes: string[] = [];
  const partial: PartialGroup[] = [];
  for (const [
    task,
    {
      group_id,
      task: { task_id },
    },
  ] of groups.entries()) {
    const tried = Array.from({ length: samples }, (_, sample) => slots.get(slot({ task, sample })) ?? []);
    const done = tried.flatMap((attempts) => attempts.filter(({ outcome }) => outcome === 'done'));
    if (done.length === samples) episodes.push(...done.map(({ id }) => id));
    else {
      const missing = tried.filter((attempts) => !attempts.some(({ outcome }) => outcome === 'done'));
      partial.push({
        group_id,
        task_id,
        done: done.length,
        of: samples,
        why: reasons(missing),
      });
    }
  }
  // What a budget leaves out was never begun.
  const begun = rows.filter(({ error }) => error?.code !== 'budget');
  const failed = begun.filter(({ outcome }) => outcome === 'failed');
  return {
    episodes,
    groups: { complete: groups.length - partial.length, partial: partial.length },
    partial,
    attempts: {
      done: rows.filter(({ outcome }) => outcome === 'done').length,
      failed: failed.length,
      late: failed.filter(({ result }) => result?.late === true).length,
      retried: begun.filter(({ spec }) => spec.attempt > 0).length,
    },
  };
}

function reasons(missing: readonly (readonly AttemptRow[])[]): PartialGroup['why'] {
  const counted = new Map<string, { code: AttemptError['code']; message: string; samples: number }>();
  for (const attempts of missing) {
    const last = attempts.reduce<AttemptRow | null>(
      (late, one) => (late === null || one.spec.attempt > late.spec.attempt ? one : late),
      null,
    );
    const { code, message } = last?.error ?? { code: 'stopped' as const, message: 'It was not tried.' };
    const known = counted.get(code);
    if (known) known.samples++;
    else counted.set(code, { code, message, samples: 1 });
  }
  return [...counted.values()].sort((a, b) => b.samples - a.samples);
}
