/** Fields of operations on plans and their runs. */
import { type TProperties, Type } from 'typebox';
import { EXIT } from '../../../errors.ts';
import { parseYaml } from '../../../ingest/files/parse-yaml.ts';
import type { PlanValues } from '../../../trainer/loop/plan/plan-values.ts';
import { nullable } from '../fields.ts';
import { defaulted, local, written } from '../operation.ts';

/** The fields of an operation on a plan. */
export const planInput = {
  plan: written(
    Type.Union([Type.String({ minLength: 1 }), Type.Object({}, { additionalProperties: true })], {
      description: 'the plan: YAML or JSON as text, or an object',
    }),
    { position: true, file: 'document' },
  ),
  set: Type.Optional(
    written(
      Type.Record(Type.String({ minLength: 1, pattern: '^[^=\\s]+$' }), Type.Unknown(), {
        description:
          'values of the plan to set, such as seed=2 or policies.team.train.steps=60; the value is YAML; repeatable',
      }),
      { value: 'path=value', repeated: true, parse: setValue, text: (value) => JSON.stringify(value) },
    ),
  ),
  rounds: Type.Optional(Type.Integer({ minimum: 1, description: 'number of rounds (default: that of the plan)' })),
  folder: Type.Optional(
    local(Type.String({ description: 'folder that the plan names files from (default: that of its file)' }), 'only', {
      folderOf: 'plan',
    }),
  ),
};

/** The value that `seed=2` sets. @throws Error */
export function setValue(text: string): PlanValues {
  const [, path, value] = /^([^=\s]+)=(.*\S.*)$/s.exec(text) ?? [];
  if (path === undefined) throw new Error('should be a path and a value, such as seed=2');
  try {
    return { [path]: parseYaml(value!) };
  } catch (error) {
    const [why = ''] = (error as Error).message.split('\n', 1);
    throw new Error(`should have a value in YAML (${why.replace(/:$/, '')})`);
  }
}

export const detach = defaulted(
  Type.Boolean({ description: 'leave the run to the processes of `troupe up`, as it always is over HTTP' }),
  false,
);

const ids = Type.Record(Type.String(), Type.String());
/** The output of such an operation: the result too, where the run has ended. */
export const runEnd = <P extends TProperties>(more: P) =>
  Type.Object({
    run: Type.String(),
    ...more,
    state: Type.Enum(['finished', 'undecided', 'running'], { description: 'running: other processes work on it' }),
    decision: Type.Optional(Type.String({ description: 'job that the run waits for' })),
    waits_for: Type.Optional(Type.Enum(['person', 'canary'], { description: 'who decides' })),
    released: Type.Optional(Type.Boolean()),
    rounds: Type.Optional(
      Type.Array(
        Type.Object({
          ...{ round: Type.Integer(), candidates: ids, teams: Type.Optional(ids), passed: Type.Boolean() },
          ...{ reason: Type.String(), gate: Type.String({ description: 'job that holds the report of its gate' }) },
          ...{ release_id: nullable(Type.String()), rollout: Type.Unknown() },
        }),
      ),
    ),
    ended_early: Type.Optional(nullable(Type.String({ description: 'why it ended before its last round' }))),
    nothing_to_learn: Type.Optional(
      nullable(Type.String({ description: 'why it ended without a training that made a step' })),
    ),
  });

export const exitOfRun = (ended: { readonly [K in 'state' | 'released' | 'nothing_to_learn']?: unknown }): number =>
  ended.state === 'running' || ended.released === true || typeof ended.nothing_to_learn === 'string'
    ? EXIT.done
    : EXIT.gate;
