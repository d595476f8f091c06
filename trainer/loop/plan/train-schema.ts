/** How a policy of a plan is trained, as JSON Schema: by the built-in trainer, or by a program. */
import { type TSchema, Type } from 'typebox';
import { TroupeError } from '../../../errors.ts';
import { layoutNamed } from '../../../store/datasets/export.ts';
import { VALUED } from '../../learn/data/value-rows.ts';
import { DEFAULTS } from '../../learn/defaults.ts';
import { POLICY_LOSSES } from '../../learn/policy-losses.ts';
import { SFT_MEANS } from '../../learn/sft.ts';
import { VALUE_LOSSES } from '../../learn/value-head.ts';
import { WIDEST_CLIP } from '../../model/losses/policy-presets.ts';
import { Lora } from '../jobs/job-specs.ts';
import { clip, count, share, strict } from './schema-numbers.ts';

const beta = (description: string) => Type.Optional(Type.Number({ minimum: 0, maximum: 1, description }));
const Shared = {
  learning_rate: Type.Optional(
    Type.Number({ exclusiveMinimum: 0, description: `learning rate; ${DEFAULTS.learning_rate} if left out` }),
  ),
  warmup: count(`steps over which the rate rises; ${DEFAULTS.warmup} if left out`, 0),
  beta1: beta(`of AdamW; ${DEFAULTS.beta1} if left out`),
  beta2: beta(`of AdamW; ${DEFAULTS.beta2} if left out`),
  weight_decay: share(`decoupled, of matrices; ${DEFAULTS.weight_decay} if left out`),
  clip: share(`largest norm of the gradients; ${DEFAULTS.clip} if left out, 0: any`),
};
const Local = { engine: Type.Optional(Type.Literal('local', { description: 'the built-in trainer' })) };
const Adapted = { lora: Type.Optional(Lora) };
const Batch = { batch: count(`rows in a step; ${DEFAULTS.batch} if left out`) };
export const Sft = Type.Object(
  {
    ...Local,
    method: Type.Literal('sft'),
    steps: Type.Union([Type.Integer({ minimum: 1 }), Type.Record(Type.String(), Type.Integer({ minimum: 0 }))], {
      description: 'optimizer steps of each role, or by role',
    }),
    ...Batch,
    ...Shared,
    ...Adapted,
    loss: Type.Optional(
      Type.Enum([...SFT_MEANS], {
        description: `mean over the rows of a step of their means, or over all of its tokens; ${DEFAULTS.sft_loss} if left out`,
      }),
    ),
    entropy: share(`weight of an entropy bonus; ${DEFAULTS.entropy} if left out`),
  },
  strict,
);
export const Dpo = Type.Object(
  {
    ...Local,
    method: Type.Literal('dpo'),
    steps: Type.Integer({ minimum: 1 }),
    ...Batch,
    ...Shared,
    ...Adapted,
    beta: Type.Optional(
      Type.Number({ exclusiveMinimum: 0, description: `how strongly the reference holds; ${DEFAULTS.beta}` }),
    ),
    label_smoothing: Type.Optional(Type.Number({ minimum: 0, maximum: 0.5 })),
  },
  strict,
);
const byRole = <Schema extends TSchema>(number: Schema, description: string) =>
  Type.Union([number, Type.Record(Type.String(), number)], { description: `${description}; one number, or by role` });
export const Rl = Type.Object(
  {
    ...Local,
    method: Type.Literal('rl'),
    groups: Type.Optional(byRole(Type.Integer({ minimum: 1 }), `groups in a step, ${DEFAULTS.groups} if left out`)),
    ...Shared,
    ...Adapted,
    learning_rate: Type.Optional(
      byRole(Type.Number({ exclusiveMinimum: 0 }), 'learning rate, by the width of the model if left out'),
    ),
    entropy: Type.Optional(
      byRole(Type.Number({ minimum: 0 }), `weight of an entropy bonus, ${DEFAULTS.entropy} if left out`),
    ),
    loss: Type.Optional(Type.Enum([...POLICY_LOSSES], { description: `${DEFAULTS.rl_loss} if left out` })),
    kl: share('coefficient of the divergence to the starting weights'),
    epochs: count(`passes over the dataset; ${DEFAULTS.epochs}`),
    clip_low: clip('lower clip of the ratio; that of the loss if left out', WIDEST_CLIP.clipLow),
    clip_high: clip('upper clip of the ratio; that of the loss if left out', WIDEST_CLIP.clipHigh),
  },
  strict,
);
export const Value = Type.Object(
  {
    ...Local,
    method: Type.Literal('value', { description: 'a head that gives one number: a critic, or a process reward model' }),
    of: Type.Enum([...VALUED], {
      description:
        'state: what stands before an answer is worth · answer: what it is worth with the answer. The target is the credit of the recipe, or its reward where it names no credit',
    }),
    loss: Type.Optional(Type.Enum([...VALUE_LOSSES], { description: `${DEFAULTS.value_loss} if left out` })),
    steps: Type.Integer({ minimum: 1 }),
    ...Batch,
    ...Shared,
  },
  {
    ...strict,
    refuses: { lora: 'should be left out: method value trains a head and all layers below it, without an adapter.' },
  },
);
export const Program = Type.Object(
  {
    engine: Type.Literal('command', { description: 'a program of yours: TRL, LLaMA-Factory, Axolotl, verl, a script' }),
    use: Type.String({ minLength: 1, description: 'its name in the setting engines' }),
    layout: Type.Optional(
      Type.String({
        description: 'files the program reads, as dataset export names them; the frozen folder if left out',
        reads: (name: unknown, at: string) => {
          try {
            layoutNamed(String(name));
          } catch (error) {
            if (!(error instanceof TroupeError)) throw error;
            throw new TroupeError('plan_invalid', `${at}: ${error.message}`, { ...error.detail, field: at });
          }
        },
      }),
    ),
    params: Type.Optional(
      Type.Record(Type.String(), Type.Unknown(), { description: 'passed to the program as they are' }),
    ),
  },
  {
    ...strict,
    refuses: {
      lora: 'is of the built-in trainer, and the engine is command: a program reads the numbers of its adapter from params, as it names them.',
    },
  },
);
