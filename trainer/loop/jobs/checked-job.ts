/** Whether a job that is to start later could start: its kind is known, and its spec is one that the kind reads. */
import { got, TroupeError } from '../../../errors.ts';
import { parseRecipe } from '../../../store/datasets/recipe.ts';
import { annotateSpec } from '../../../store/evaluate/attribution/annotate.ts';
import { resolveMethods } from '../../../store/evaluate/judging/judge.ts';
import { EvaluateSpec, FreezeSpec, JudgeSpec } from '../../../store/queue/jobs/handlers.ts';
import { checkedSpec } from '../../../store/queue/jobs/jobs.ts';
import { ProgramSpec } from '../../engines/program-training.ts';
import { parseStoredPlan } from '../plan/plan.ts';
import { PlanSpec } from '../plan/plan-run.ts';
import { REWARD, rewardSpec } from '../rewards/job.ts';
import { DpoSpec, RlSpec, SftSpec, ValueSpec } from './job-specs.ts';
import { PassSpec } from './passes.ts';

const CHECKS: Readonly<Record<string, (spec: unknown) => unknown>> = {
  judge: (spec) => resolveMethods(checkedSpec(JudgeSpec, spec).methods),
  freeze: (spec) => parseRecipe(checkedSpec(FreezeSpec, spec).recipe),
  evaluate: (spec) => checkedSpec(EvaluateSpec, spec),
  annotate: annotateSpec,
  [REWARD]: rewardSpec,
  sft: (spec) => checkedSpec(SftSpec, spec),
  dpo: (spec) => checkedSpec(DpoSpec, spec),
  rl: (spec) => checkedSpec(RlSpec, spec),
  pass: (spec) => checkedSpec(PassSpec, spec),
  value: (spec) => checkedSpec(ValueSpec, spec),
  program: (spec) => checkedSpec(ProgramSpec, spec),
  plan: (spec) => parseStoredPlan(checkedSpec(PlanSpec, spec).plan),
};

export type JobRequest = { readonly kind: string; readonly spec: Record<string, unknown> };

/** @throws TroupeError `usage` naming the kinds that there are, or the field of the spec that does not fit */
export async function requireJob({ kind, spec }: JobRequest): Promise<void> {
  const check = Object.hasOwn(CHECKS, kind) ? CHECKS[kind] : undefined;
  if (check === undefined)
    throw new TroupeError(
      'usage',
      `There is no job of kind ${got(kind)}; the kinds are ${Object.keys(CHECKS).join(', ')}.`,
    );
  await check(spec);
}
