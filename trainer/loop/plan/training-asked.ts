/** What the training of a policy is asked for. */
import { openDataset } from '../../../store/datasets/read.ts';
import type { PlanPolicy } from './plan-schema.ts';

/** What a job that trains came to. */
export type TrainingResult = {
  readonly checkpoint_id: string;
  readonly directory: string;
  /** Optimizer steps; unknown of programs. */
  readonly steps?: number;
};

/** Kind of the job that trains. */
export const trainingKind = ({ train }: PlanPolicy): string => (train.engine === 'command' ? 'program' : train.method);

/** Whether it learns from how answers differ: then rows without a difference are no fault, as those that an imitation lacks are. */
export const learnsFromSignal = (policy: PlanPolicy): boolean => ['rl', 'dpo'].includes(trainingKind(policy));

/** Where a job that goes on with an adapter may find the model below it, which may have moved since. */
export const loraBase = ({ base, train }: PlanPolicy): { readonly lora_base?: string } =>
  base !== undefined && 'lora' in train ? { lora_base: base } : {};

/** The numbers of a training job. `sft` and `rl` have theirs by role: those of the recipe, else those of the rows. */
export async function trainSpec({ recipe, train }: PlanPolicy, dataset: string): Promise<Record<string, unknown>> {
  if (train.engine === 'command') {
    const { use, layout, params = {} } = train;
    return { engine: use, params, ...(layout === undefined ? {} : { layout }) };
  }
  const { engine: _engine, method, ...numbers } = train;
  if (method === 'dpo' || method === 'value') return numbers;
  const roles = recipe.roles ?? (await rolesOf(dataset));
  if (train.method === 'sft') {
    const { steps } = train;
    const byRole = typeof steps === 'number' ? Object.fromEntries(roles.map((role) => [role, steps])) : steps;
    return { ...numbers, steps: byRole };
  }
  const { groups, learning_rate, entropy, ...rest } = train as Extract<PlanPolicy['train'], { method: 'rl' }>;
  const own = { groups, learning_rate, entropy };
  const { engine: _, method: __, ...others } = rest;
  return { ...others, roles: roles.map((role) => ({ role, ...ofRole(own, role) })) };
}

/** The numbers of a role that are given; those that are left out have their defaults where the training begins. */
export const ofRole = (
  numbers: Readonly<Record<string, number | Readonly<Record<string, number>> | undefined>>,
  role: string,
): Record<string, number> =>
  Object.fromEntries(
    Object.entries(numbers).flatMap(([name, value]) => {
      const own = typeof value === 'object' ? value[role] : value;
      return own === undefined ? [] : [[name, own]];
    }),
  );

async function rolesOf(dataset: string): Promise<string[]> {
  const opened = await openDataset(dataset);
  const roles = new Set<string>();
  for (const row of opened.rows('train')) roles.add(String(row.role ?? ''));
  return [...roles].sort();
}
