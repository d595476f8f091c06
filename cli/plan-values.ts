/** The flag `--set PATH=VALUE` of commands that take a plan. */
import { type Command, InvalidArgumentError } from 'commander';
import { parseYaml } from '../ingest/files/parse-yaml.ts';
import type { PlanValues } from '../trainer/loop/plan/plan-values.ts';
import type { Flags } from './command.ts';

export const withSet = (command: Command): Command =>
  command.option(
    '--set <path=value>',
    'set a value of the plan, such as seed=2 or policies.team.train.steps=60; the value is YAML; repeatable',
    (text: string, so_far: PlanValues): PlanValues => {
      const [, path, written] = /^([^=\s]+)=(.*\S.*)$/s.exec(text) ?? [];
      if (path === undefined || written === undefined)
        throw new InvalidArgumentError('It should be a path and a value, such as seed=2.');
      try {
        return { ...so_far, [path]: parseYaml(written) };
      } catch (error) {
        const [why = ''] = (error as Error).message.split('\n', 1);
        throw new InvalidArgumentError(`The value of ${path} is no YAML: ${why.replace(/:$/, '')}.`);
      }
    },
    {},
  );

/** The values of the flag, for the spec of a run: nothing where none is set. */
export const setIn = ({ set = {} }: Flags): { readonly set?: PlanValues } =>
  Object.keys(set as PlanValues).length === 0 ? {} : { set: set as PlanValues };
