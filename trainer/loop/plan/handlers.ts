/** The kinds of jobs that plans are made of, beside those of the store and the trainer. */
import type { Handler, JobContext } from '../../../store/queue/jobs/jobs.ts';
import { type ProgramSettings, programTraining } from '../../engines/program-training.ts';
import type { Runner } from '../play/runners.ts';
import { offlineGate } from './offline-gate.ts';
import { planHandler, type RunSettings } from './plan-run.ts';
import { playGate } from './play-gate.ts';

export type PlanSettings = ProgramSettings & {
  readonly threads: number;
  readonly runners: readonly Runner[];
  /** What plans are checked with before they begin, beside the runners, the engines and the environment. */
  readonly checking: Omit<RunSettings['checking'], 'runners' | 'engines' | 'env' | 'codeVersion'>;
  readonly hosted?: RunSettings['hosted'];
};

/** `plan` and `play` wait for their stages without a worker; `gate` computes, as training does; `program` waits for a program of others. */
export const planHandlers = (
  context: JobContext,
  settings: PlanSettings,
): Readonly<Record<'plan' | 'play' | 'gate' | 'program', Handler>> => ({
  plan: planHandler(context, {
    checking: { ...settings.checking, ...shared(settings) },
    ...(settings.hosted === undefined ? {} : { hosted: settings.hosted }),
  }),
  play: playGate(context, settings),
  gate: offlineGate(context, settings),
  program: programTraining(context, settings),
});

const shared = ({ runners, engines, env, codeVersion }: PlanSettings) => ({ runners, engines, env, codeVersion });
