/**
 * The loop that every way of training shares: rows, rate, step, now and then held-out rows, now and then a checkpoint, until the steps
 * are done, nothing gets better, or somebody asks it to stop. What a method adds are its rows and its loss.
 */
import { setImmediate as turn } from 'node:timers/promises';
import { TroupeError } from '../../errors.ts';
import type { Loss } from '../model/losses/loss.ts';
import type { Row } from './data/row.ts';
import { DEFAULTS } from './defaults.ts';
import type { AdamOptions, Schedule } from './optimizer.ts';
import { beginning, type Curves, type Progress } from './run-state.ts';
import { evaluate, type TrainableModel, trainStep } from './step.ts';

export type Adam = Omit<AdamOptions, 'learningRate'>;

/** AdamW where no number of it is given. */
export const ADAM = {
  beta1: DEFAULTS.beta1,
  beta2: DEFAULTS.beta2,
  epsilon: DEFAULTS.epsilon,
  weightDecay: DEFAULTS.weight_decay,
  clip: DEFAULTS.clip,
} as const satisfies Adam;

/** What a method gives the loop. */
export type Course = {
  readonly steps: number;
  /** Rows of a step with their weights; a function of the step alone. */
  readonly rowsOf: (step: number) => readonly Row[];
  readonly loss: Loss;
  readonly schedule: Schedule;
  readonly adam: Adam;
  /** Rows that are not trained on, with weights that make their loss a mean. */
  readonly heldOut?: readonly Row[];
};

/** What its caller wants to see of it; every field may be left out. */
export type Watch = {
  /** Token accuracy of every step; it costs a pass over the logits. Held-out rows have it always. */
  readonly accuracy?: boolean;
  /** Steps from one evaluation of the held-out rows to the next; 0: only at the end. */
  readonly evaluateEvery?: number;
  /** Evaluations without a better one after which the run ends; 0: never. */
  readonly patience?: number;
  /** Steps from one checkpoint to the next; 0: none before the end. */
  readonly checkpointEvery?: number;
  /** Called when a checkpoint is due; `better` where the last evaluation was the best so far. The last call is the end of the run. */
  readonly save?: (progress: Progress, why: { readonly better: boolean }) => Promise<void>;
  readonly onStep?: (done: FinishedStep) => void | Promise<void>;
  /** Once aborted the step under way is finished and saved, and the loop throws `interrupted`. */
  readonly signal?: AbortSignal;
  /** Milliseconds from any beginning. */
  readonly now?: () => number;
};

export type FinishedStep = {
  /** Steps done, from 1. */
  readonly step: number;
  readonly steps: number;
  readonly loss: number;
  readonly gradientNorm: number;
  readonly learningRate: number;
  readonly metrics: Readonly<Record<string, number>>;
  /** Of each token of each completion of each row that was trained, under the weights before the step. */
  readonly logprobs: readonly (readonly (readonly (number | null)[])[])[];
  /** Held-out loss where this step was followed by an evaluation. */
  readonly heldOut: number | null;
  /** Tokens that the loss was taken over. */
  readonly trainedTokens: number;
  /** Tokens that went through the model, each shared prompt once. */
  readonly tokens: number;
  readonly milliseconds: number;
};

/**
 * Trains in place, from `progress` on. Equal weights, optimizer, course and progress give equal bits on one thread.
 * @throws TroupeError `training_failed` when the loss is not finite, `interrupted` when the signal asked it to stop.
 */
export async function trainingLoop(
  model: TrainableModel,
  course: Course,
  watch: Watch = {},
  progress: Progress = beginning(),
): Promise<Progress> {
  const { steps, rowsOf, loss, schedule, adam, heldOut = [] } = course;
  const { evaluateEvery = 0, checkpointEvery = 0, save, onStep, signal, now = () => performance.now() } = watch;
  let at: Progress = progress;
  while (at.step < steps && !at.stopped) {
    const began = now();
    const rows = rowsOf(at.step);
    const learningRate = schedule(at.step);
    const outcome = await trainStep(model, rows, { ...adam, loss, learningRate, accuracy: watch.accuracy ?? false });
    const milliseconds = now() - began;
    const step = at.step + 1;
    note(at.curves, { ...outcome, learningRate });
    at = { ...at, step };

    const ends = step === steps;
    let held: number | null = null;
    let better = false;
    if (heldOut.length > 0 && (isDue(step, evaluateEvery) || ends)) {
      const judged = await evaluate(model, heldOut, loss);
      held = judged.loss;
      at.curves.heldOut.push({ step, loss: held, metrics: judged.metrics });
      better = at.best === null || held < at.best.loss;
      at = better ? { ...at, best: { step, loss: held }, stale: 0 } : { ...at, stale: at.stale + 1 };
      at = { ...at, stopped: (watch.patience ?? 0) > 0 && at.stale >= (watch.patience ?? 0) && !ends };
    }

    await onStep?.({
      step,
      steps,
      loss: outcome.loss,
      gradientNorm: outcome.gradientNorm,
      learningRate,
      metrics: outcome.metrics,
      logprobs: outcome.logprobs,
      heldOut: held,
      trainedTokens: outcome.tokens,
      tokens: rows.reduce((sum, row) => sum + tokensOf(row), 0),
      milliseconds,
    });
    // A step may never leave the event loop, and then no signal would ever be handled.
    await turn();
    const stops = signal?.aborted === true && !ends && !at.stopped;
    const savesBest = better && (watch.patience ?? 0) > 0;
    if (isDue(step, checkpointEvery) || savesBest || ends || at.stopped || stops) await save?.(at, { better });
    if (stops) throw new TroupeError('interrupted', `Training was interrupted after step ${step} of ${steps}.`);
  }
  return at;
}

const isDue = (step: number, every: number): boolean => every > 0 && step % every === 0;

const tokensOf = ({ promptIds, completions }: Row): number =>
  completions.reduce((sum, { tokenIds }) => sum + tokenIds.length, promptIds.length);

type StepNote = {
  readonly loss: number;
  readonly gradientNorm: number;
  readonly learningRate: number;
  readonly metrics: Readonly<Record<string, number>>;
};

/** Curves grow in place: copying them at each step would cost the square of the steps. */
function note(curves: Curves, { loss, gradientNorm, learningRate, metrics }: StepNote): void {
  const before = curves.loss.length;
  curves.loss.push(loss);
  curves.gradientNorm.push(gradientNorm);
  curves.learningRate.push(learningRate);
  for (const name of Object.keys(metrics)) curves.metrics[name] ??= Array.from({ length: before }, () => null);
  for (const [name, values] of Object.entries(curves.metrics)) values.push(metrics[name] ?? null);
}
