/**
 * How the learning rate goes over a run: a rise over the first steps, then constant, or down to 0 along a line or half a cosine
 * (SGDR, arXiv:1608.03983, without restarts). No step has the rate 0: the rise begins above it and the fall would reach it after the end.
 */
import { type Schedule, withWarmup } from './optimizer.ts';

const SCHEDULES = ['constant', 'cosine', 'linear'] as const;
export type ScheduleName = (typeof SCHEDULES)[number];

export type ScheduleOptions = {
  readonly rate: number;
  readonly steps: number;
  /** Steps of the rise, or below 1 a share of all steps. */
  readonly warmup: number;
};

export function namedSchedule(name: ScheduleName, { rate, steps, warmup }: ScheduleOptions): Schedule {
  const rise = warmup < 1 ? Math.round(warmup * steps) : warmup;
  const left = (step: number): number =>
    Math.min(1, Math.max(0, (steps - Math.max(step, rise)) / Math.max(1, steps - rise)));
  const shapes: Readonly<Record<ScheduleName, Schedule>> = {
    constant: () => rate,
    linear: (step) => rate * left(step),
    cosine: (step) => (rate * (1 - Math.cos(Math.PI * left(step)))) / 2,
  };
  return withWarmup(rise, shapes[name]);
}
