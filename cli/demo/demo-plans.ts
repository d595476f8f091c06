/** The plans of the demo, with its seed; smaller or changed where a proof or an experiment asks for that. */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Document, parseDocument } from 'yaml';
import { planOfFile } from '../../api/operations/plan/read.ts';
import type { Plan } from '../../trainer/loop/plan/plan-schema.ts';
import type { Bar } from '../output.ts';
import type { RoleSettings } from '../processes/children.ts';

/** The policy of the team. */
export const POLICY = 'team';
/** The verifier's own policy, where it is frozen. */
export const VERIFIER = 'verifier';

export type DemoOptions = {
  readonly seed: number;
  /** Rounds of reinforcement; none at 0. */
  readonly rounds: number;
  readonly bar: Bar;
  /** The arguments that make the processes work on this project. */
  readonly settings: RoleSettings;
  /** Ends the demo before its end. */
  readonly signal?: AbortSignal;
  /** Called with each plan before it is started, as it is written. */
  readonly onPlan?: (yaml: string) => void;
  /** Called once for each stage of a plan that has ended. */
  readonly onStage?: (jobId: string) => Promise<void>;
  /** Share of the tasks and steps; 1. */
  readonly scale?: number;
  /** Iterations in a round of reinforcement; as in the plan times the scale. */
  readonly iterations?: number;
  /** Rounds of learning from its own successes; as in the plan, and none at 0. */
  readonly own?: number;
  /** Changes a plan before it is stored. */
  readonly edit?: (name: string, plan: Document) => void;
  /**
   * Who answers the verifier's calls; the policy of the team if left out. `frozen`: a policy of its own, which keeps the weights that the team
   * had before reinforcement. `none`: nobody, the coder works alone.
   */
  readonly verifier?: 'frozen' | 'none';
};

/** A program of the example, compiled where this file is. */
export const exampleFile = (path: string): string =>
  fileURLToPath(new URL(`../../examples/coder-verifier/${path}`, import.meta.url));
/** The plans are no modules, so they stand once, beside the sources. */
const planFile = (name: string): string =>
  fileURLToPath(
    new URL(`${SUFFIX === '.ts' ? '../..' : '../../..'}/examples/coder-verifier/plans/${name}.yaml`, import.meta.url),
  );

export const SUFFIX = import.meta.url.endsWith('.ts') ? '.ts' : '.js';

/** A plan of the example with the seed and the size of this demo; its file lies beside its tasks. */
export async function demoPlan(
  folder: string,
  name: string,
  options: DemoOptions,
): Promise<{ readonly plan: Plan; readonly yaml: string }> {
  const { seed, iterations, scale = 1, edit } = options;
  const document = parseDocument(await readFile(planFile(name), 'utf8'));
  const scaled = (n: unknown) => Math.max(1, Math.ceil(Number(n) * scale));
  const set = (path: readonly string[], to: (was: unknown) => unknown) => {
    if (document.hasIn(path)) document.setIn(path, to(document.getIn(path)));
  };
  document.set('seed', seed);
  set(['rounds'], (was) => asked(options)[name] ?? was);
  set(['rollout', 'per_round'], scaled);
  set(['rollout', 'iterations'], (was) => iterations ?? scaled(was));
  for (const role of ['coder', 'verifier']) set(['policies', POLICY, 'train', 'steps', role], scaled);
  edit?.(name, document);
  const yaml = document.toString({ lineWidth: 0 });
  const file = join(folder, `${name}.yaml`);
  await writeFile(file, yaml);
  return { plan: await planOfFile(file), yaml };
}

/** Rounds of a plan, where the options name them. */
export const asked = ({ own, rounds }: DemoOptions): Readonly<Record<string, number | undefined>> => ({
  successes: own,
  reinforcement: rounds,
});

/** Stages that a run of a plan has at least. */
export const stagesIn = ({ rounds = 1, rollout }: Plan): number =>
  rounds * ((rollout ? 4 : 3) * (rollout?.iterations ?? 1) + 4);
