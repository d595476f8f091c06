/**
 * How the learning rate goes over a run: a rise over the first steps, then constant, down to 0 along a line or half a cosine (SGDR,
 * arXiv:1608.03983, without restarts), or constant until the last 30 % of the steps and then down a line to a tenth (`wsd`, as
 * warmup-stable-decay of MiniCPM, arXiv:2404.06395, with a fall that ends above 0). No step has the rate 0: the rise begins above it and the fall would reach it after the end.
 */
import { type Schedule, withWarmup } from './optimizer.ts';

export const SCHEDULES = ['constant', 'cosine', 'linear', 'wsd'] as const;
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
    wsd: (step) => rate * (step > 0.7 * steps ? Math.max(0.1, (steps - step) / (0.3 * steps)) : 1),
  };
  return withWarmup(rise, shapes[name]);
}
