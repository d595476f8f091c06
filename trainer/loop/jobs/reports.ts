/** The numbers that a training job reports while it trains, by the names that they have in `traj.job_metrics`. */
import type { Handler, Job } from '../../../store/queue/jobs/jobs.ts';
import type { FinishedStep, Watch } from '../../learn/training-loop.ts';

/** Steps from one report of a job to the next. */
const REPORT_EVERY = 10;

export type Report = Parameters<Handler>[1];

export type Reporting = {
  readonly accuracy: boolean;
  readonly signal: AbortSignal;
  /** Called with the seconds of each step. */
  readonly onStep: (seconds: number, job: string) => void;
  readonly tally: Tally;
  /** The role whose rows a step has, counted from 1; left out where steps mix roles. */
  readonly roleOf?: (step: number) => string;
};

/**
 * Reports every tenth step and the last: of each number its mean over the steps since the report before, of all of them and of each role, as
 * `checker.loss`.
 */
export function reporting(
  { job_id }: Job,
  report: Report,
  { accuracy, signal, onStep, tally, roleOf }: Reporting,
): Watch {
  let since: FinishedStep[] = [];
  return {
    accuracy,
    signal,
    onStep: async (done) => {
      onStep(done.milliseconds / 1000, job_id);
      since.push(done);
      count(tally, roleOf?.(done.step) ?? '', done.learningRate);
      if (done.step % REPORT_EVERY !== 0 && done.step !== done.steps) return;
      const steps = since;
      since = [];
      await report(done.step, { ...stepMetrics(steps), ...byRole(steps, roleOf) });
    },
  };
}

/** Optimizer steps of each role, and the sum of their learning rates; of steps that mix roles under an empty name. */
export type Tally = Map<string, { readonly steps: number; readonly moved: number }>;

export const newTally = (): Tally => new Map();

function count(tally: Tally, role: string, rate: number): void {
  const { steps = 0, moved = 0 } = tally.get(role) ?? {};
  tally.set(role, { steps: steps + 1, moved: moved + rate });
}

/** What of it stands in the result of a job. */
export const tallied = (tally: Tally) => ({
  steps: [...tally.values()].reduce((sum, { steps }) => sum + steps, 0),
  by_role: Object.fromEntries(tally),
});

/** Of steps that follow each other: means, and of what stands for a moment, such as the learning rate, the last. */
export function stepMetrics(steps: readonly FinishedStep[]): Record<string, number> {
  const last = steps.at(-1)!;
  const sum = (of: (step: FinishedStep) => number) => steps.reduce((all, step) => all + of(step), 0);
  return {
    ...means(steps),
    learning_rate: last.learningRate,
    tokens_per_second:
      (1000 * sum(({ tokens }) => tokens)) /
      Math.max(
        1e-3,
        sum(({ milliseconds }) => milliseconds),
      ),
    share: last.step / last.steps,
    ...(last.heldOut === null ? {} : { held_out_loss: last.heldOut }),
  };
}

function means(steps: readonly FinishedStep[]): Record<string, number> {
  const found = new Map<string, number[]>();
  for (const { metrics, loss, gradientNorm } of steps)
    for (const [name, value] of Object.entries({ ...metrics, loss, gradient_norm: gradientNorm }))
      found.set(name, [...(found.get(name) ?? []), value]);
  return Object.fromEntries([...found].map(([name, all]) => [name, all.reduce((a, b) => a + b, 0) / all.length]));
}

function byRole(steps: readonly FinishedStep[], roleOf: Reporting['roleOf']): Record<string, number> {
  const roles = new Set(roleOf === undefined ? [] : steps.map(({ step }) => roleOf(step)));
  return Object.fromEntries(
    [...roles]
      .filter((role) => role !== '')
      .flatMap((role) =>
        Object.entries(means(steps.filter(({ step }) => roleOf!(step) === role))).map(([name, value]) => [
          `${role}.${name}`,
          value,
        ]),
      ),
  );
}
