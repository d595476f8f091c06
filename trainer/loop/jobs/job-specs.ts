/** The spec of each kind of training job: additive, since old jobs are run again later. */
import { type Static, Type } from 'typebox';
import { VALUED } from '../../learn/data/value-rows.ts';
import { POLICY_LOSSES } from '../../learn/policy-losses.ts';
import { SFT_MEANS } from '../../learn/sft.ts';
import { VALUE_LOSSES } from '../../learn/value-head.ts';
import { type Adapter, ALL_LINEAR } from '../../model/lora.ts';

/** The numbers of an adapter as plans and jobs have them. */
export const Lora = Type.Object(
  {
    r: Type.Integer({ minimum: 1, description: 'rank: rows of A, columns of B' }),
    alpha: Type.Number({ exclusiveMinimum: 0, description: 'what A and B add to the weights is scaled by alpha/r' }),
    targets: Type.Optional(
      Type.Array(Type.String({ minLength: 1 }), {
        minItems: 1,
        description: 'names of linear maps, such as q_proj; every linear map of a layer if left out',
      }),
    ),
  },
  {
    additionalProperties: false,
    description: 'a low-rank adapter is trained and the weights are held; left out, all weights are trained',
  },
);

/** The adapter that a job asks for; null for all weights. */
export const adapterAsked = (lora: Static<typeof Lora> | undefined): Adapter | null =>
  lora === undefined ? null : { r: lora.r, alpha: lora.alpha, targets: lora.targets ?? ALL_LINEAR };

const Common = {
  base: Type.String({ description: 'directory of the checkpoint to go on from' }),
  dataset: Type.String({ description: 'directory of the frozen dataset' }),
  policy: Type.String(),
  seed: Type.Integer(),
  reset_optimizer: Type.Optional(Type.Boolean()),
  keep: Type.Optional(Type.Boolean({ description: 'false: live weights, which the next ones replace' })),
  beta1: Type.Optional(Type.Number()),
  beta2: Type.Optional(Type.Number()),
  weight_decay: Type.Optional(Type.Number()),
  clip: Type.Optional(Type.Number({ description: 'largest norm of the gradients; 0: any' })),
  accuracy: Type.Optional(Type.Boolean({ description: 'token accuracy among the metrics' })),
};
/** Of the kinds that can train an adapter. */
const Adapted = {
  lora: Type.Optional(Lora),
  lora_base: Type.Optional(Type.String({ description: 'a directory in which the model below an adapter may be' })),
};
/** What every kind has, or may have. */
export type TrainSpec = Static<Type.TObject<typeof Common & typeof Adapted>>;

/** Of the kinds whose batches are numbers of rows. */
const Batched = {
  batch: Type.Optional(Type.Integer({ minimum: 1 })),
  learning_rate: Type.Optional(Type.Number()),
  warmup: Type.Optional(Type.Integer({ minimum: 0 })),
};
export const SftSpec = Type.Object({
  ...Common,
  ...Adapted,
  ...Batched,
  steps: Type.Record(Type.String(), Type.Integer({ minimum: 0 })),
  loss: Type.Optional(Type.Enum([...SFT_MEANS])),
  entropy: Type.Optional(Type.Number()),
});
export type SftSpec = Static<typeof SftSpec>;
export const RlSpec = Type.Object({
  ...Common,
  ...Adapted,
  roles: Type.Array(
    Type.Object({
      role: Type.String(),
      groups: Type.Optional(Type.Integer({ minimum: 1 })),
      learning_rate: Type.Optional(Type.Number()),
      entropy: Type.Optional(Type.Number()),
    }),
  ),
  clip_low: Type.Optional(Type.Number()),
  clip_high: Type.Optional(Type.Number()),
  warmup: Type.Optional(Type.Integer({ minimum: 0 })),
  loss: Type.Optional(Type.Enum([...POLICY_LOSSES])),
  kl: Type.Optional(Type.Number({ minimum: 0, description: 'coefficient of the divergence to the base' })),
  epochs: Type.Optional(Type.Integer({ minimum: 1 })),
});
export type RlSpec = Static<typeof RlSpec>;
export const DpoSpec = Type.Object({
  ...Common,
  ...Adapted,
  ...Batched,
  steps: Type.Integer({ minimum: 1 }),
  beta: Type.Optional(Type.Number({ exclusiveMinimum: 0 })),
  label_smoothing: Type.Optional(Type.Number({ minimum: 0, maximum: 0.5 })),
});
export type DpoSpec = Static<typeof DpoSpec>;
export const ValueSpec = Type.Object({
  ...Common,
  ...Batched,
  steps: Type.Integer({ minimum: 1 }),
  of: Type.Enum([...VALUED]),
  loss: Type.Optional(Type.Enum([...VALUE_LOSSES])),
});
export type ValueSpec = Static<typeof ValueSpec>;
