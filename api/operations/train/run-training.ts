/** A run by hand: started or resumed, watched, saved, and reported. */

import { basename, join, resolve } from 'node:path';
import { TroupeError } from '../../../errors.ts';
import { asText } from '../../../ingest/events/json.ts';
import { publishAdapter } from '../../../trainer/learn/learner.ts';
import type { Progress, RunState, Settings } from '../../../trainer/learn/run-state.ts';
import type { FinishedStep, Watch } from '../../../trainer/learn/training-loop.ts';
import { trainingReport } from '../../../trainer/learn/training-report.ts';
import { latestCheckpoint } from '../../../trainer/model/checkpoints/checkpoint.ts';
import { bestOf, closeRun, type OpenRun, openRun, saveRun } from '../../../trainer/model/checkpoints/run-folder.ts';
import { publishFile } from '../../../trainer/model/files/atomic.ts';
import { recordCheckpoint } from '../checkpoints/record.ts';
import type { ChangeContext, OutputOf } from '../operation.ts';
import type { TrainingInput } from './input.ts';
import { runOutput } from './output.ts';
import { type ModelSetup, threadsOf } from './setup.ts';

/** What a method does in a run; `reference` is computed once, before its first step, and kept with it. */
type Work = {
  readonly reference?: () => Promise<RunState['reference']>;
  readonly train: (
    run: OpenRun,
    watch: Watch,
    reference: RunState['reference'],
  ) => Promise<{ readonly progress: Progress; readonly roles?: Record<string, Record<string, number>> }>;
};

/** Trains, and resolves with what came out. */
export async function runTraining(
  context: ChangeContext,
  input: TrainingInput,
  prepared: ModelSetup,
  settings: Settings,
  steps: number,
  { reference: scores = async () => null, train }: Work,
) {
  const { say } = context;
  const { start, data, adapter } = prepared;
  const { seed, recompute, policy } = input;
  const out = await runOutput(context, input.out);
  const { folder } = out;
  const all = { ...prepared.settings, ...settings, steps };
  const mode = input.restart ? 'restart' : input.resume ? 'resume' : 'auto';
  const threads = threadsOf(context, input);
  const run = await openRun({ folder, start, settings: all, steps, seed, threads, adapter, recompute, mode });
  try {
    const from = run.progress.step;
    if (from > 0)
      say(from >= steps || run.progress.stopped ? 'This run is finished.' : `Going on after step ${from} of ${steps}.`);
    const reference = run.reference ?? (await scores());
    const watching = watchOf(context, input, run, { data, reference, put: out.put });
    const { progress, roles } = await train(run, watching.watch, reference);
    // A run that was finished before is reported again, without a step.
    const at = watching.saved() ?? (await finishedAt(folder));
    await out.finish(at.id);
    if (policy !== undefined) await recordCheckpoint(context, at.dir, policy);
    const { rates, curve } = watching.speed();
    const report = await writeReport(input, folder, {
      method: asText(prepared.settings.method),
      progress,
      rates: curve,
    });
    const adapterDir = await publishAdapter(run.learner, folder);
    return {
      ...{ checkpoint_id: at.id, directory: at.dir },
      ...numbersOf(progress),
      ...{ tokens_per_second: rates.tokens, trained_tokens_per_second: rates.trained },
      best: progress.best && { ...progress.best, directory: await bestOf(folder, all, progress) },
      ...{ stopped_early: progress.stopped, resumed_after_step: from },
      rows: {
        ...{ used: data.rows.length, cut: data.cut, skipped: data.skipped, refused: data.refused.length },
        errors: data.refused.map((refusal) => ({ file: input.data, ...refusal })),
      },
      ...{ report, answer_form: start.template?.answerForm ?? null },
      ...(policy === undefined ? {} : { policy }),
      ...(out.address ? { stored_at: out.address } : {}),
      ...(adapterDir ? { adapter: adapterDir } : {}),
      ...(roles === undefined ? {} : { roles }),
    };
  } catch (error) {
    if (!(error instanceof TroupeError) || error.code !== 'interrupted') throw error;
    const text = `${error.message} The progress is saved in ${folder}.`;
    throw new TroupeError('interrupted', text, { hint: 'Rerun the command to go on.' });
  } finally {
    await closeRun(run);
  }
}

/** Saves when a checkpoint is due, and shows how far the run is. */
function watchOf(
  { signal, version, progress: show }: ChangeContext,
  input: TrainingInput,
  run: OpenRun,
  {
    data,
    reference,
    put,
  }: Pick<ModelSetup, 'data'> & {
    readonly reference: RunState['reference'];
    readonly put: OutputOf<typeof runOutput>['put'];
  },
) {
  const meter = speedometer();
  const meta = {
    datasets: [data.sha256],
    log_positions: data.dataset?.manifest.positions['facts/embedded'] ?? {},
    code_version: version,
  };
  let saved: { readonly id: string; readonly dir: string } | null = null;
  let heldOut = run.progress.curves.heldOut.at(-1)?.loss ?? null;
  const watch: Watch = {
    accuracy: input.accuracy ?? false,
    evaluateEvery: input.eval_every ?? 0,
    patience: input.patience ?? 0,
    checkpointEvery: input.checkpoint_every ?? 0,
    signal,
    save: async (at) => {
      saved = await saveRun(run, at, { meta, keep: input.keep, reference, onnx: input.onnx ?? false });
      await put(saved);
    },
    onStep: (done) => {
      meter.add(done);
      heldOut = done.heldOut ?? heldOut;
      show(done.step, done.steps, noteOf(done, heldOut, meter.rates().tokens));
    },
  };
  return { watch, saved: () => saved, speed: () => ({ rates: meter.rates(), curve: meter.curve() }) };
}

async function finishedAt(folder: string): Promise<{ readonly id: string; readonly dir: string }> {
  const dir = (await latestCheckpoint(folder)) ?? folder;
  return { id: basename(dir), dir };
}

const numbersOf = ({ curves }: Progress) => ({
  losses: curves.loss,
  grad_norms: curves.gradientNorm,
  learning_rates: curves.learningRate,
  metrics: curves.metrics,
  held_out: curves.heldOut,
});

/** Writes the curves as SVG: to the file that is named, or beside the checkpoints. */
async function writeReport(
  { report, curves, model }: TrainingInput,
  folder: string,
  of: { readonly method: string; readonly progress: Progress; readonly rates: readonly (number | null)[] },
): Promise<string | null> {
  if (!curves) return null;
  const file = report === undefined ? join(folder, 'report.svg') : resolve(report);
  const title = `${of.method} · ${model}`;
  const svg = trainingReport({ title, curves: of.progress.curves, tokensPerSecond: of.rates });
  await publishFile(file, new TextEncoder().encode(svg), { durable: false });
  return file;
}

/** Tokens a second, without the first step of the process, which compiles the graph. */
function speedometer() {
  const steps: Pick<FinishedStep, 'step' | 'tokens' | 'trainedTokens' | 'milliseconds'>[] = [];
  return {
    add: ({ step, tokens, trainedTokens, milliseconds }: FinishedStep): void => {
      steps.push({ step, tokens, trainedTokens, milliseconds });
    },
    rates: () => {
      const counted = steps.length > 1 ? steps.slice(1) : steps;
      const ms = counted.reduce((sum, step) => sum + step.milliseconds, 0);
      const rate = (of: 'tokens' | 'trainedTokens') =>
        ms === 0 ? null : (1000 * counted.reduce((sum, step) => sum + step[of], 0)) / ms;
      return { tokens: rate('tokens'), trained: rate('trainedTokens') };
    },
    /** Of each step of the run; null for those of an earlier process. */
    curve: (): (number | null)[] => {
      const curve: (number | null)[] = [];
      for (const { step, tokens, milliseconds: ms } of steps) {
        while (curve.length < step - 1) curve.push(null);
        curve.push(ms === 0 ? null : (1000 * tokens) / ms);
      }
      return curve;
    },
  };
}

/** What stands beside the progress bar; `heldOut` is the latest loss of the rows held out. */
function noteOf({ loss, metrics }: FinishedStep, heldOut: number | null, tokens: number | null): string {
  const parts = [`loss ${loss.toFixed(4)}`];
  if (heldOut !== null) parts.push(`held-out ${heldOut.toFixed(4)}`);
  if (metrics.accuracy !== undefined) parts.push(`accuracy ${metrics.accuracy.toFixed(3)}`);
  if (tokens !== null) parts.push(`${Math.round(tokens)} tokens/s`);
  return parts.join(' · ');
}
