/** What is printed about a run while it trains and at its end: the note beside the bar, the speed, the document, the curves. */
import { join, resolve } from 'node:path';
import type { TrainingData } from '../../trainer/learn/data/training-data.ts';
import type { Progress, Settings } from '../../trainer/learn/run-state.ts';
import type { FinishedStep } from '../../trainer/learn/training-loop.ts';
import { trainingReport } from '../../trainer/learn/training-report.ts';
import { publishFile } from '../../trainer/model/files/atomic.ts';
import type { Flags } from '../command.ts';
import { print, printJson } from '../output.ts';

export type TrainingResult = {
  readonly checkpoint: { readonly id: string; readonly dir: string };
  readonly progress: Progress;
  readonly from: number;
  readonly best: object | null;
  readonly report: string | null;
  readonly data: TrainingData<unknown>;
  readonly rates: Rates;
  readonly more: Readonly<Record<string, unknown>>;
};

/** What came out: a few lines for people, one document for programs. */
export function printResult(
  flags: Flags,
  { checkpoint, progress, from, best, report, data, rates, more }: TrainingResult,
): void {
  const { curves, step, stopped } = progress;
  const { refused, cut, skipped } = data;
  if (!flags.json) {
    print(`Checkpoint ${checkpoint.id} saved in ${checkpoint.dir}`);
    for (const line of lossLines(progress)) print(line);
    if (stopped) print(`Stopped after step ${step}: the held-out loss got no better.`);
    if (typeof more.adapter === 'string') print(`Adapter in ${more.adapter}; fold it in: troupe model merge`);
    if (report) print(`Curves in ${report}`);
    return;
  }
  printJson({
    checkpoint_id: checkpoint.id,
    directory: checkpoint.dir,
    losses: curves.loss,
    grad_norms: curves.gradientNorm,
    tokens_per_second: rates.tokens,
    trained_tokens_per_second: rates.trained,
    learning_rates: curves.learningRate,
    metrics: curves.metrics,
    held_out: curves.heldOut,
    best,
    stopped_early: stopped,
    resumed_after_step: from,
    rows: {
      used: data.rows.length,
      cut,
      skipped,
      refused: refused.length,
      errors: refused.map((refusal) => ({ file: String(flags.data), ...refusal })),
    },
    report,
    ...more,
  });
}

/** Where the losses began and where they ended: the loss of one step is noisy, so the training loss is that of the last tenth. */
function lossLines({ curves, best, step }: Progress): string[] {
  const last = curves.loss.slice(-Math.max(1, Math.floor(curves.loss.length / 10)));
  const mean = last.reduce((sum, loss) => sum + loss, 0) / last.length;
  const [first, ...later] = curves.heldOut;
  return [
    ...(curves.loss.length < 2
      ? []
      : [`Training loss ${curves.loss[0]!.toFixed(4)} → ${mean.toFixed(4)} in ${step} steps`]),
    ...(first === undefined
      ? []
      : [
          `Held-out loss ${first.loss.toFixed(4)}${later.length === 0 ? '' : ` after step ${first.step} → ${later.at(-1)!.loss.toFixed(4)} after step ${later.at(-1)!.step}`}${
            best && later.length > 0 ? `; best ${best.loss.toFixed(4)} after step ${best.step}` : ''
          }`,
        ]),
  ];
}

export type ReportOptions = {
  readonly settings: Settings;
  readonly progress: Progress;
  readonly rates: readonly (number | null)[];
};

/** Writes the curves as SVG: to --report, or beside the checkpoints. */
export async function writeReport(flags: Flags, folder: string, options: ReportOptions): Promise<string | null> {
  if (flags.report === false) return null;
  const file = typeof flags.report === 'string' ? resolve(flags.report) : join(folder, 'report.svg');
  const { settings, progress, rates } = options;
  const svg = trainingReport({
    title: `${settings.method} · ${String(flags.model)}`,
    curves: progress.curves,
    tokensPerSecond: rates,
  });
  await publishFile(file, new TextEncoder().encode(svg), { durable: false });
  return file;
}

export type Rates = { readonly tokens: number | null; readonly trained: number | null };

/** Tokens a second, without the first step of the process, which compiles the graph. */
export function speedometer() {
  const steps: { readonly step: number; readonly tokens: number; readonly trained: number; readonly ms: number }[] = [];
  return {
    add: ({ step, tokens, trainedTokens, milliseconds }: FinishedStep): void => {
      steps.push({ step, tokens, trained: trainedTokens, ms: milliseconds });
    },
    rates: (): Rates => {
      const counted = steps.length > 1 ? steps.slice(1) : steps;
      const ms = counted.reduce((sum, step) => sum + step.ms, 0);
      const rate = (of: (step: (typeof steps)[number]) => number) =>
        ms === 0 ? null : (1000 * counted.reduce((sum, step) => sum + of(step), 0)) / ms;
      return { tokens: rate(({ tokens }) => tokens), trained: rate(({ trained }) => trained) };
    },
    /** Of each step of the run; null for those of an earlier process. */
    curve: (): (number | null)[] => {
      const curve: (number | null)[] = [];
      for (const { step, tokens, ms } of steps) {
        while (curve.length < step - 1) curve.push(null);
        curve.push(ms === 0 ? null : (1000 * tokens) / ms);
      }
      return curve;
    },
  };
}

/** What stands beside the progress bar; `heldOut` is the latest loss of the rows held out. */
export function noteOf({ loss, metrics }: FinishedStep, heldOut: number | null, tokens: number | null): string {
  const parts = [`loss ${loss.toFixed(4)}`];
  if (heldOut !== null) parts.push(`held-out ${heldOut.toFixed(4)}`);
  if (metrics.accuracy !== undefined) parts.push(`accuracy ${metrics.accuracy.toFixed(3)}`);
  if (tokens !== null) parts.push(`${Math.round(tokens)} tokens/s`);
  return parts.join(' · ');
}
