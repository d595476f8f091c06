/**
 * The numbers of a training as people write them, by hand, in a plan and in a job, and what each is where it is left out. Whoever trains
 * asks here, so that equal numbers and rows give equal weights wherever they were asked for.
 */
import type { Order } from './data/orders.ts';
import { DEFAULTS, rlLearningRate } from './defaults.ts';
import { defaultKl, type PolicyLossName } from './policy-losses.ts';
import type { PreferenceOptions } from './preference.ts';
import type { RlOptions } from './rl.ts';
import { namedSchedule, type ScheduleName } from './schedules.ts';
import type { SftMean, SftOptions } from './sft.ts';
import type { TrainableModel } from './step.ts';
import type { Adam } from './training-loop.ts';

type Partials<T> = { readonly [Name in keyof T]?: T[Name] | undefined };

/** Of every method. */
export type Numbers = Partials<{
  learning_rate: number;
  schedule: ScheduleName;
  /** Steps of the rise, or below 1 a share of all steps. */
  warmup: number;
  beta1: number;
  beta2: number;
  weight_decay: number;
  clip: number;
}>;
export type SftNumbers = Numbers & Partials<{ loss: SftMean; entropy: number }>;
export type DpoNumbers = Numbers & Partials<{ beta: number; label_smoothing: number }>;
export type RlRole = { readonly role: string } & Partials<{ groups: number; learning_rate: number; entropy: number }>;
export type RlNumbers = Omit<Numbers, 'learning_rate'> &
  Partials<{ loss: PolicyLossName; kl: number; epochs: number; clip_low: number; clip_high: number }> & {
    readonly roles: readonly RlRole[];
    readonly seed: number;
  };

/** Which rows each step takes. */
export type RowOrder = { readonly steps: number; readonly order: Order };

const adamOf = ({ beta1, beta2, weight_decay, clip }: Numbers): Adam => ({
  beta1: beta1 ?? DEFAULTS.beta1,
  beta2: beta2 ?? DEFAULTS.beta2,
  epsilon: DEFAULTS.epsilon,
  weightDecay: weight_decay ?? DEFAULTS.weight_decay,
  clip: clip ?? DEFAULTS.clip,
});

/** Steps, order, rate and optimizer of a method whose steps take rows. */
export const courseOf = (method: keyof typeof DEFAULTS.schedule, { steps, order }: RowOrder, numbers: Numbers) => ({
  steps,
  order,
  schedule: namedSchedule(numbers.schedule ?? DEFAULTS.schedule[method], {
    rate: numbers.learning_rate ?? DEFAULTS.learning_rate,
    steps,
    warmup: numbers.warmup ?? DEFAULTS.warmup,
  }),
  adam: adamOf(numbers),
});

export const sftOptions = (taken: RowOrder, numbers: SftNumbers): SftOptions => ({
  ...courseOf('sft', taken, numbers),
  mean: numbers.loss ?? DEFAULTS.sft_loss,
  entropy: numbers.entropy ?? DEFAULTS.entropy,
});

export const dpoOptions = (taken: RowOrder, numbers: DpoNumbers): Omit<PreferenceOptions, 'reference'> => ({
  ...courseOf('dpo', taken, numbers),
  beta: numbers.beta ?? DEFAULTS.beta,
  labelSmoothing: numbers.label_smoothing ?? DEFAULTS.label_smoothing,
});

/** Roles are taken in the order of their names, whoever lists them. */
export function rlOptions(numbers: RlNumbers, model: Pick<TrainableModel, 'config' | 'optimizer'>): RlOptions {
  const loss = numbers.loss ?? DEFAULTS.rl_loss;
  const rise = numbers.warmup ?? DEFAULTS.warmup;
  return {
    roles: numbers.roles
      .map(({ role, groups, learning_rate, entropy }) => ({
        role,
        groups: groups ?? DEFAULTS.groups,
        learningRate: learning_rate ?? rlLearningRate(model.config),
        entropy: entropy ?? DEFAULTS.entropy,
      }))
      .sort((a, b) => (a.role < b.role ? -1 : 1)),
    loss,
    kl: numbers.kl ?? defaultKl(loss),
    epochs: numbers.epochs ?? DEFAULTS.epochs,
    clip: {
      ...(numbers.clip_low === undefined ? {} : { clipLow: numbers.clip_low }),
      ...(numbers.clip_high === undefined ? {} : { clipHigh: numbers.clip_high }),
    },
    // The rate rises after the optimizer was reset, however many jobs ago that was.
    schedule: (steps) => {
      const shape = namedSchedule(numbers.schedule ?? DEFAULTS.schedule.rl, { rate: 1, steps, warmup: 0 });
      const whole = rise < 1 ? Math.round(rise * steps) : rise;
      return (step) => shape(step) * Math.min(1, (model.optimizer.step + 1) / Math.max(1, whole));
    },
    adam: adamOf(numbers),
    seed: numbers.seed,
  };
}
