/** The kinds of jobs that plans are made of, beside those of the store and the trainer. */
import type { Handler, JobContext } from '../../store/jobs/jobs.ts';
import { type ProgramSettings, programTraining } from '../engines/program-training.ts';
import { offlineGate } from './offline-gate.ts';
import { planHandler } from './plan-run.ts';

export type PlanSettings = ProgramSettings & { readonly threads: number };

/** `plan` waits for its stages without a worker; `gate` computes, as training does; `program` waits for a program of others. */
export const planHandlers = (
  context: JobContext,
  settings: PlanSettings,
): Readonly<Record<'plan' | 'gate' | 'program', Handler>> => ({
  plan: planHandler(context),
  gate: offlineGate(context, settings),
  program: programTraining(context, settings),
});
