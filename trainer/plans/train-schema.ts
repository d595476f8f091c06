/** How a policy of a plan is trained, as JSON Schema: by the built-in trainer, or by a program. */
import { type TSchema, Type } from 'typebox';
import { VALUED } from '../data/value-rows.ts';
import { Lora } from '../jobs/job-specs.ts';
import { WIDEST_CLIP } from '../losses/policy-presets.ts';
import { POLICY_LOSSES } from '../training/policy-losses.ts';
import { VALUE_LOSSES } from '../training/value-head.ts';
import { clip, count, share, strict } from './schema-numbers.ts';

const beta = (description: string) => Type.Optional(Type.Number({ minimum: 0, maximum: 1, description }));
const Shared = {
  learning_rate: Type.Number({ exclusiveMinimum: 0 }),
  warmup: count('steps over which the rate rises; 0 if left out', 0),
  beta1: beta('of AdamW; 0.9 if left out'),
  beta2: beta('of AdamW; 0.99 if left out, where `troupe train` has 0.999'),
  weight_decay: share('decoupled, of matrices; 0.01 if left out'),
  clip: share('largest norm of the gradients; 1 if left out, 0: any'),
};
const Local = { engine: Type.Optional(Type.Literal('local', { description: 'the built-in trainer' })) };
const Adapted = { lora: Type.Optional(Lora) };
const Batch = { batch: Type.Integer({ minimum: 1, description: 'rows in a step' }) };
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
    entropy: share('weight of an entropy bonus; 0 if left out'),
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
    beta: Type.Optional(Type.Number({ exclusiveMinimum: 0, description: 'how strongly the reference holds; 0.1' })),
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
    groups: byRole(Type.Integer({ minimum: 1 }), 'groups in a step'),
    ...Shared,
    ...Adapted,
    learning_rate: byRole(Shared.learning_rate, 'learning rate'),
    entropy: Type.Optional(byRole(Type.Number({ minimum: 0 }), 'weight of an entropy bonus, 0 if left out')),
    loss: Type.Optional(Type.Enum([...POLICY_LOSSES])),
    kl: share('coefficient of the divergence to the starting weights'),
    epochs: count('passes over the dataset; 1'),
    clip_low: clip('lower clip of the ratio; 0.2', WIDEST_CLIP.clipLow),
    clip_high: clip('upper clip of the ratio; 0.28', WIDEST_CLIP.clipHigh),
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
    loss: Type.Optional(Type.Enum([...VALUE_LOSSES], { description: 'mse if left out' })),
    steps: Type.Integer({ minimum: 1 }),
    ...Batch,
    ...Shared,
  },
  strict,
);
export const Program = Type.Object(
  {
    engine: Type.Literal('command', { description: 'a program of yours: TRL, LLaMA-Factory, Axolotl, verl, a script' }),
    use: Type.String({ minLength: 1, description: 'its name in the setting engines' }),
    layout: Type.Optional(
      Type.String({
        description: 'files the program reads, as dataset export names them; the frozen folder if left out',
      }),
    ),
    params: Type.Optional(
      Type.Record(Type.String(), Type.Unknown(), { description: 'passed to the program as they are' }),
    ),
  },
  strict,
);
export const TRAIN = { sft: Sft, dpo: Dpo, rl: Rl, value: Value } as const;
