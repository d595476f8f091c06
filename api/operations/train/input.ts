/** What training by hand takes, as the spec of a training job has it and besides. */
import { Type } from 'typebox';
import { got } from '../../../errors.ts';
import { VALUED } from '../../../trainer/learn/data/value-rows.ts';
import { DEFAULTS } from '../../../trainer/learn/defaults.ts';
import { POLICY_LOSSES } from '../../../trainer/learn/policy-losses.ts';
import type { RoleSteps } from '../../../trainer/learn/role-steps.ts';
import { SCHEDULES, type ScheduleName } from '../../../trainer/learn/schedules.ts';
import { SFT_MEANS } from '../../../trainer/learn/sft.ts';
import { VALUE_LOSSES } from '../../../trainer/learn/value-head.ts';
import { Lora } from '../../../trainer/loop/jobs/job-specs.ts';
import { adapterText } from '../../../trainer/model/lora.ts';
import { bytesOf, bytesText } from '../bytes.ts';
import { checkpoint } from '../fields.ts';
import { defaulted, type InputOf, local, written } from '../operation.ts';

const count = (description: string) => Type.Integer({ minimum: 1, description });
const fromZero = (description: string, maximum?: number) =>
  Type.Number({ minimum: 0, ...(maximum === undefined ? {} : { maximum }), description });
const above = (description: string) => Type.Number({ exclusiveMinimum: 0, description });
const yes = (description: string) => defaulted(Type.Boolean({ description }), false);
const unless = (description: string) => defaulted(Type.Boolean({ description }), true);

/** Of every way of training. */
export const common = {
  model: checkpoint('the model or checkpoint to start from: its directory, or its id in the home', { value: 'dir' }),
  data: local(Type.String({ description: 'frozen dataset (folder, id or name) or file of JSON lines' }), 'or name'),
  out: local(
    Type.String({
      minLength: 1,
      description: 'folder for the checkpoints, or s3://bucket/prefix (uploaded from a folder in the home)',
    }),
    'only',
    { value: 'dir' },
  ),
  policy: Type.Optional(
    Type.String({
      maxLength: 512,
      description: 'record the checkpoint in the project as one of this policy, with its datasets',
    }),
  ),
  eval: Type.Optional(
    local(
      Type.String({ description: 'held-out rows: a share (0.1), a file, a dataset, or a split of the dataset' }),
      'only',
      { value: 'data' },
    ),
  ),
  eval_every: Type.Optional(count('steps between evaluations (default: only at the end)')),
  patience: Type.Optional(count('stop after this many evaluations without an improvement')),
  warmup: defaulted(fromZero('warmup steps, or a share of all steps if below 1'), DEFAULTS.warmup),
  weight_decay: defaulted(fromZero('decoupled weight decay, applied to matrices'), DEFAULTS.weight_decay),
  beta1: defaulted(fromZero('beta1 of AdamW', 1), DEFAULTS.beta1),
  beta2: defaulted(fromZero('beta2 of AdamW', 1), DEFAULTS.beta2),
  clip: defaulted(fromZero('maximum gradient norm; 0: no clipping'), DEFAULTS.clip),
  max_length: Type.Optional(count('maximum row length in tokens; longer rows are truncated')),
  seed: defaulted(Type.Integer({ minimum: 0, description: 'random seed of the row order' }), 0),
  checkpoint_every: Type.Optional(count('steps between checkpoints (default: one at the end)')),
  keep: defaulted(count('number of newest checkpoints to keep beside the best'), 1),
  threads: Type.Optional(count('threads of a step; one makes runs repeatable (TROUPE_THREADS, 1)')),
  recompute: yes(
    'recompute activations in the backward pass: a third more work, a fraction of the memory (sft, rl, value)',
  ),
  report: Type.Optional(
    local(
      Type.String({ description: 'SVG file for the training curves (default: report.svg in the folder)' }),
      'only',
      {
        value: 'file',
      },
    ),
  ),
  curves: unless('write no training curves'),
  memory_limit: Type.Optional(
    written(
      Type.Integer({ minimum: 1, description: 'memory that the run may use, such as 2GiB (default: what is free)' }),
      {
        ...{ value: 'size', parse: bytesOf },
        text: (bytes) => bytesText(bytes).replace(' ', ''),
      },
    ),
  ),
  memory_check: unless('start even if the estimate exceeds the memory'),
  resume: yes('resume the run in the folder; do nothing if it is finished'),
  restart: yes('start over if the folder holds an unfinished run'),
};

const rate = (description: string) => written(above(description), { flag: 'lr', value: 'x' });
const learning_rate = defaulted(rate('learning rate'), DEFAULTS.learning_rate);
const schedule = (method: keyof typeof DEFAULTS.schedule) =>
  defaulted(
    Type.Enum([...SCHEDULES], {
      description: 'learning-rate schedule; wsd: constant, the last 30 % down to a tenth',
    }),
    DEFAULTS.schedule[method],
  );

const loraText = ({ r, alpha, targets }: { r: number; alpha: number; targets?: string[] }): string =>
  adapterText({ r, alpha, targets: targets ?? ['all-linear'] });

/** Of a model whose head writes tokens. */
const language = {
  lora: Type.Optional(written(Lora, { value: 'spec', parse: loraIn, text: loraText })),
  onnx: yes('write model.onnx into each checkpoint, for ONNX Runtime without Troupe'),
  accuracy: yes('measure token accuracy at every step, at the cost of some speed'),
};

/** Of training whose steps take rows. */
const order = {
  steps: Type.Optional(count('optimizer steps')),
  epochs: Type.Optional(above('passes over the rows (default: 1, if steps are not given)')),
  batch: defaulted(count('rows in a step'), DEFAULTS.batch),
  shuffle: unless('keep the order of the rows, and start again at the first after the last'),
  by_problem: yes('train on all rows of a problem in one step, in order'),
};
const entropy = defaulted(fromZero('weight of an entropy bonus'), DEFAULTS.entropy);
const reference = Type.Optional(
  checkpoint('reference model: its directory, or its id in the home (default: the model)', { value: 'dir' }),
);

/** What every way of training takes, and what some do. */
export type TrainingInput = InputOf<typeof common> &
  Partial<InputOf<typeof language>> & { readonly learning_rate?: number; readonly schedule: ScheduleName };
/** In which order rows are taken. */
export type OrderInput = Omit<InputOf<typeof order>, 'steps'> & Pick<RoleSteps, 'steps'>;

/** `r=8,alpha=16,targets=q_proj,v_proj`: what follows `targets=` up to the next name with `=` are targets. */
function loraIn(text: string) {
  const parts: string[] = [];
  for (const part of text.split(',')) {
    if (part.includes('=') || parts.length === 0) parts.push(part);
    else parts[parts.length - 1] += `,${part}`;
  }
  const fields = new Map(parts.map((part) => part.split('=').map((side) => side.trim()) as [string, string]));
  const unknown = [...fields.keys()].find((name) => !['r', 'alpha', 'targets'].includes(name));
  if (unknown !== undefined) throw new Error(`should have r, alpha and targets, not ${got(unknown)}`);
  const r = Number(fields.get('r') ?? 8);
  const targets = fields.get('targets');
  const named = targets && targets !== 'all-linear' ? { targets: targets.split(',') } : {};
  return { r, alpha: Number(fields.get('alpha') ?? 2 * r), ...named };
}

/** `200`, or `router=60,checker=200`. */
function stepsIn(text: string): unknown {
  if (!text.includes('=')) return Number(text);
  const parts = text.split(',').map((part) => part.trim().split(/=(?=[^=]*$)/) as [string, string?]);
  return Object.fromEntries(parts.map(([role, steps = '']) => [role, Number(steps)]));
}

const stepsText = (steps: number | Readonly<Record<string, number>>): string =>
  typeof steps === 'number'
    ? String(steps)
    : Object.entries(steps)
        .map(([role, of]) => `${role}=${of}`)
        .join(',');

export const sftInput = {
  ...{ ...common, learning_rate, schedule: schedule('sft'), ...language, ...order },
  steps: Type.Optional(
    written(
      Type.Union([order.steps, Type.Record(Type.String(), Type.Integer({ minimum: 1 }))], {
        description: 'optimizer steps; of each role of a dataset, or by role: router=60,checker=200',
      }),
      { value: 'n', parse: stepsIn, text: stepsText },
    ),
  ),
  loss: defaulted(
    Type.Enum(SFT_MEANS, { description: 'mean over all tokens of a step, or over its rows of their means' }),
    DEFAULTS.sft_loss,
  ),
  entropy,
};

export const dpoInput = {
  ...{ ...common, learning_rate, schedule: schedule('dpo'), ...language, ...order, reference },
  beta: defaulted(above('strength of the penalty for moving away from the reference'), DEFAULTS.beta),
  label_smoothing: defaulted(fromZero('assumed share of swapped labels', 0.5), DEFAULTS.label_smoothing),
};

export const rlInput = {
  ...{ ...common, schedule: schedule('rl'), ...language, entropy, reference },
  learning_rate: Type.Optional(rate('learning rate (default: by the width of the model)')),
  loss: defaulted(Type.Enum([...POLICY_LOSSES], { description: 'policy gradient loss' }), DEFAULTS.rl_loss),
  groups: defaulted(count('groups in a step'), DEFAULTS.groups),
  epochs: defaulted(count('passes over the dataset'), DEFAULTS.epochs),
  clip_low: Type.Optional(fromZero('lower clip (default: that of the loss)')),
  clip_high: Type.Optional(fromZero('upper clip (default: that of the loss)')),
  kl: Type.Optional(fromZero('coefficient of the divergence to the reference (grpo 0.04, others 0)')),
};

export const valueInput = {
  ...{ ...common, learning_rate, schedule: schedule('value'), ...order },
  of: Type.Optional(
    Type.Enum([...VALUED], {
      description:
        'of a dataset, one value a step: of its prompt, or of its answer; the target is the credit of the recipe, else its reward (default: a value before each token, of the reward)',
    }),
  ),
  loss: defaulted(
    Type.Enum(VALUE_LOSSES, {
      description: 'distance of a value from the reward; cross-entropy takes rewards from 0 to 1',
    }),
    DEFAULTS.value_loss,
  ),
};

export const rewardInput = { ...common, learning_rate, schedule: schedule('reward'), ...order };
