/** The numbers that a training job reports while it trains, by the names that they have in `traj.job_metrics`. */
import type { Handler, Job } from '../../store/jobs/jobs.ts';
import type { StepDone, Watch } from '../training/training-loop.ts';

/** Steps from one report of a job to the next. */
const REPORT_EVERY = 10;

export type Report = Parameters<Handler>[1];

export type Reporting = {
  readonly accuracy: boolean;
  readonly signal: AbortSignal;
  /** Called with the seconds of each step. */
  readonly onStep: (seconds: number, job: string) => void;
  /** The role whose rows a step has, counted from 1; left out where steps mix roles. */
  readonly roleOf?: (step: number) => string;
};

/**
 * Reports every tenth step and the last: of each number its mean over the steps since the report before, of all of them and of each role, as
 * `checker.loss`.
 */
export function reporting({ job_id }: Job, report: Report, { accuracy, signal, onStep, roleOf }: Reporting): Watch {
  let since: StepDone[] = [];
  return {
    accuracy,
    signal,
    onStep: async (done) => {
      onStep(done.milliseconds / 1000, job_id);
      since.push(done);
      if (done.step % REPORT_EVERY !== 0 && done.step !== done.steps) return;
      const steps = since;
      since = [];
      await report(done.step, { ...stepMetrics(steps), ...byRole(steps, roleOf) });
    },
  };
}

/** Of steps that follow each other: means, and of what stands for a moment, such as the learning rate, the last. */
export function stepMetrics(steps: readonly StepDone[]): Record<string, number> {
  const last = steps.at(-1)!;
  const sum = (of: (step: StepDone) => number) => steps.reduce((all, step) => all + of(step), 0);
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

function means(steps: readonly StepDone[]): Record<string, number> {
  const found = new Map<string, number[]>();
  for (const { metrics, loss, gradientNorm } of steps)
    for (const [name, value] of Object.entries({ ...metrics, loss, gradient_norm: gradientNorm }))
      found.set(name, [...(found.get(name) ?? []), value]);
  return Object.fromEntries([...found].map(([name, all]) => [name, all.reduce((a, b) => a + b, 0) / all.length]));
}

function byRole(steps: readonly StepDone[], roleOf: Reporting['roleOf']): Record<string, number> {
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
